"""Patches of code by qualified name and syntax tree: they still fit after a move or a change of layout.

An `Edit` replaces one fragment of one definition. A fragment is a run of statements of any body, an expression, or a
keyword argument. Comments, layout and docstrings don't count. In `after`, `...` stands for what is replaced:
`if x: ...` puts it under a condition. A body `...` in `before` is any body; then `...` in `after` stands for that body:
with `def f(self): ...` for `def f(): ...`, a function gets another signature.
"""

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

DEFINED = re.compile(r"\b(?:def|class) (\w+)|^(\w+)(?= =|:)", re.MULTILINE)
Name = tuple[str, ...]
Body = list[ast.stmt]
Nodes = list[ast.AST]


class Edit(NamedTuple):
    """Replaces the fragment `before`, which occurs exactly once in the definition `where`, by `after`."""

    where: str
    """A qualified name, as `Grantor.step`; if several modules have it, behind a part of the module's name:
    `coordinator.Writer`."""
    before: str
    """If empty, `after` is added to the end of the definition."""
    after: str
    """If empty, the fragment is deleted."""


class Stale(Exception):
    """A patch does not fit the code any more: a definition or a fragment is not there exactly once."""


class Span(NamedTuple):
    """A statement of a module, by its lines: what is parsed, changed and written as a whole."""

    path: Path
    first: int
    last: int


class Code:
    """The modules of the package in the folder `package`, as they are now."""

    def __init__(self, package: Path) -> None:
        self._texts = {path: path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
        self._folders = {path: path.relative_to(package).with_suffix("").parts for path in self._texts}
        self._words = {
            path: {*(word for one in DEFINED.findall(text) for word in one), *self._folders[path]}
            for path, text in self._texts.items()
        }
        """All that a name in this file can be made of: other files are not parsed to find it."""
        self._definitions: dict[Path, list[tuple[Name, Span]]] = {}

    def path(self, where: str) -> Path:
        """The file of the only definition that has this name. Raises `Stale`."""
        return self._find(where)[1].path

    def patched(self, edits: Iterable[Edit]) -> dict[Span, ast.Module]:
        """The statements that the edits change, as they are then. Raises `Stale`, and `SyntaxError`."""
        trees: dict[Span, ast.Module] = {}
        for edit in edits:
            name, span = self._find(edit.where)
            if span not in trees:
                trees[span] = ast.parse("\n".join(self._texts[span.path].split("\n")[span.first : span.last]))
            _replace(trees[span], name, edit)
        for span, tree in trees.items():
            compile(tree, span.path, "exec")
        return trees

    def apply(self, edits: Iterable[Edit]) -> frozenset[Path]:
        """Writes what the edits change, and says in which files. Raises `Stale`; then nothing is written."""
        trees = self.patched(edits)
        for span, tree in sorted(trees.items(), key=lambda one: one[0].first, reverse=True):
            lines = span.path.read_text(encoding="utf-8").split("\n")
            lines[span.first : span.last] = [ast.unparse(tree)]
            span.path.write_text("\n".join(lines), encoding="utf-8")
        return frozenset(span.path for span in trees)

    def _find(self, where: str) -> tuple[Name, Span]:
        parts = tuple(where.split("."))
        found = [
            (name, span)
            for path, words in self._words.items()
            if words.issuperset(parts)
            for name, span in self._defined(path)
            if parts[-len(name) :] == name and set(parts[: -len(name)]) <= set(self._folders[path])
        ]
        if len(found) != 1:
            raise Stale(f"{where} is defined {len(found)} times{''.join(f', in {span.path}' for _, span in found)}")
        return found[0]

    def _defined(self, path: Path) -> list[tuple[Name, Span]]:
        """The names of its definitions, and the statement of the module that each is part of."""
        if path not in self._definitions:
            found = self._definitions[path] = []
            for node in ast.parse(self._texts[path]).body:
                first = min(one.lineno for one in (node, *getattr(node, "decorator_list", ())))
                span = Span(path, first - 1, node.end_lineno)
                found += [(name, span) for name, _, _ in _definitions(ast.Module(body=[node]))]
        return self._definitions[path]


def _definitions(tree: ast.AST, prefix: Name = ()) -> Iterator[tuple[Name, Body, int]]:
    """The functions, methods, classes and module constants: the qualified name of each, and where it stands."""
    for _, body in ast.iter_fields(tree):
        for index, node in enumerate(body if isinstance(body, list) else ()):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield (*prefix, node.name), body, index
                yield from _definitions(node, (*prefix, node.name))
            elif isinstance(node, (ast.stmt, ast.excepthandler, ast.match_case)):
                targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
                if not prefix:
                    yield from (((one.id,), body, index) for one in targets if isinstance(one, ast.Name))
                yield from _definitions(node, prefix)


def _replace(tree: ast.Module, name: Name, edit: Edit) -> None:
    """Raises `Stale`."""
    body, index = next((body, index) for found, body, index in _definitions(tree) if found == name)
    before, after = (ast.parse(textwrap.dedent(text)).body for text in (edit.before, edit.after))
    if not before:
        body[index].body.extend(after)
        return
    around = ast.Module(body=[body[index]], type_ignores=[])
    places = [(*place, put) for wanted, put in _readings(before, after) for place in _places(around, wanted, put)]
    if len(places) != 1:
        raise Stale(f"in {edit.where} this occurs {len(places)} times:\n{edit.before}")
    node, field, start, kept, put = places[0]
    put = _Filled(kept).visit(ast.Module(body=put)).body
    value = getattr(node, field)
    if isinstance(value, list):
        value[start : start + len(before)] = put
        if field == "body" and not value:
            value.append(ast.parse("pass").body[0])
    else:
        setattr(node, field, put[0])
    body[index : index + 1] = around.body


def _readings(before: Body, after: Body) -> Iterator[tuple[Nodes, Nodes]]:
    """What the texts of an edit may be: statements, expressions (also several of a list), keyword arguments."""
    are_expressions = all(isinstance(one, ast.Expr) for one in (*before, *after))
    if are_expressions:
        yield [one.value for one in before], [one.value for one in after]
    if not are_expressions or len(before) != 1 or len(after) != 1:
        yield before, after
    if all(isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name) for one in (*before, *after)):
        yield _keywords(before), _keywords(after)


def _keywords(body: Body) -> Nodes:
    return [ast.copy_location(ast.keyword(arg=one.targets[0].id, value=one.value), one) for one in body]


def _places(tree: ast.AST, wanted: Nodes, put: Nodes) -> Iterator[tuple[ast.AST, str, int, Nodes]]:
    """Each place where `put` can replace `wanted`: node, field, index in the field, and what `...` stands for."""
    for node in ast.walk(tree):
        for field, value in ast.iter_fields(node):
            if not isinstance(value, list) and len(put) != 1:
                continue
            values = value if isinstance(value, list) else [value]
            for start in range(len(values) - len(wanted) + 1):
                found, kept = values[start : start + len(wanted)], Nodes()
                if type(found[0]) is type(wanted[0]) and _is_same(found, wanted, kept):
                    yield node, field, start, kept or found


class _Filled(ast.NodeTransformer):
    """Puts code in the place of `...`."""

    def __init__(self, kept: Nodes) -> None:
        self._kept = kept

    def visit_Expr(self, node: ast.Expr) -> ast.AST | Nodes:
        return self._kept if _is_open([node]) else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return self._kept[0] if node.value is ... and isinstance(self._kept[0], ast.expr) else node


def _is_same(found: object, wanted: object, kept: Nodes) -> bool:
    """Whether both are the same code; `kept` gets the body that `...` stands for."""
    if isinstance(wanted, ast.AST):
        return type(found) is type(wanted) and all(
            _is_same(getattr(found, field), getattr(wanted, field), kept) for field in wanted._fields
        )
    if isinstance(wanted, list) and isinstance(found, list):
        if _is_open(wanted):
            kept[:] = found
            return True
        found, wanted = _without_docstring(found), _without_docstring(wanted)
        return len(found) == len(wanted) and all(_is_same(*pair, kept) for pair in zip(found, wanted, strict=True))
    return type(found) is type(wanted) and found == wanted


def _is_open(body: object) -> bool:
    match body:
        case [ast.Expr(value=ast.Constant(value=value))]:
            return value is ...
    return False


def _without_docstring(nodes: Nodes) -> Nodes:
    match nodes:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return rest
    return nodes

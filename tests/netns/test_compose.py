"""The containers of examples/compose/compose.yaml as processes, each on a host of its own, by the steps of
docs/containers.md. What Docker does itself is left out; tests/e2e/test_wheel.py runs the steps of the image."""

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.documents import ROOT
from tests.netns.named import NamedHosts

PAGE, COMPOSE = ROOT / "docs/containers.md", ROOT / "examples/compose/compose.yaml"
OF_DOCKER: Final = ("make dist", "docker build --tag leasehold .", "cd examples/compose", "sudo chown 7400 secrets")
PROGRAM: Final = str(Path(sys.executable).with_name("leasehold"))

Service = dict[str, Any]


def image() -> tuple[dict[str, str], list[str]]:
    """The variables and the health check of the image."""
    lines = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    variables = dict(re.findall(r"(LEASEHOLD_\w+)=(\S+)", re.findall(r"^ENV (.*)$", lines, re.MULTILINE)[0]))
    return variables, json.loads(re.findall(r"^HEALTHCHECK .* CMD (\[.*\])$", lines, re.MULTILINE)[0])


class Containers:
    """What Docker Compose would do with the file, in `directory`."""

    def __init__(self, hosts: NamedHosts, directory: Path, services: dict[str, Service]) -> None:
        self._hosts = hosts
        self._directory = directory
        self._services = services
        self._of_image, self._check = image()

    def _mounted(self, name: str, text: str) -> str:
        """A path in a container, on this machine."""
        volumes = [one.split(":") for one in self._services[name]["volumes"]]
        for source, target, *_ in volumes:
            if text == target:
                return str(self._directory / source if source.startswith("./") else self._hosts.folder(source))
        return text

    def _variables(self, name: str) -> dict[str, str]:
        variables = {**self._of_image, **self._services[name].get("environment", {})}
        return {key: self._mounted(name, str(value)) for key, value in variables.items()}

    def up(self) -> None:
        for name, service in self._services.items():
            if "profiles" not in service:
                self._hosts.start(name, PROGRAM, *service["command"], variables=self._variables(name))

    def run(self, name: str, *words: str) -> str:
        variables = self._variables(name) | {"LEASEHOLD_NODE_DIR": "", "LEASEHOLD_COORDINATOR_DIR": ""}
        inside = self._services[name].get("working_dir")
        folder = "." if inside is None else self._mounted(name, inside)
        return self._hosts.run(name, "sh", "-c", 'cd "$0" && exec "$@"', folder, PROGRAM, *words, variables=variables)

    def check(self, name: str) -> str:
        _, *words = self._check
        paths = [self._mounted(name, word) for word in words]
        return self._hosts.run(name, PROGRAM, *paths, variables=self._variables(name))


@pytest.fixture
def services() -> dict[str, Service]:
    return yaml.safe_load(COMPOSE.read_text())["services"]


def test_the_containers_of_the_page_are_a_cluster(
    namespaces_available: None, tmp_path: Path, services: dict[str, Service]
) -> None:
    steps = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)[0].splitlines()
    assert [step for step in OF_DOCKER if step not in steps] == []
    with NamedHosts(tmp_path, *services) as hosts:
        containers = Containers(hosts, tmp_path, services)
        for step in steps:
            match shlex.split(step):
                case _ if step in OF_DOCKER:
                    pass
                case ["mkdir", folder]:
                    (tmp_path / folder).mkdir()
                case ["docker", "compose", "up", "--detach"]:
                    containers.up()
                case ["docker", "compose", "run", "--rm", name, *words]:
                    containers.run(name, *words)
                case _:
                    raise AssertionError(step)
        serving = [name for name in services if name.startswith("node-")]
        assert len(serving) == 3
        for name in serving:
            containers.run("client", "node", "wait", name)
        assert all(": ACTIVE" in containers.check(name) for name in serving)
        assert ": LEADER" in containers.check("coordinator")
        assert json.loads(containers.run("client", "sql", "SELECT sum(a) FROM d.t", "-o", "json"))["rows"] == [[3]]
        nodes = json.loads(containers.run("client", "sql", "SHOW NODES", "-o", "json"))
        seen = nodes["columns"].index("seen")
        assert [row[seen] for row in nodes["rows"]] == ["ALIVE"] * 3

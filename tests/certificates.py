"""Certificates for tests."""

import shutil
import subprocess
from pathlib import Path

from tests.needs import lacking


class Authority:
    """A CA, and what it signed. Where there is no openssl see `lacking`."""

    def __init__(self, folder: Path, name: str) -> None:
        if shutil.which("openssl") is None:
            lacking("NO OPENSSL")
        self._folder = folder
        self._name = name
        self.certificate = folder / f"{name}.crt"
        self._openssl("req", "-x509", *self._new_key(name), "-out", str(self.certificate), "-subj", f"/CN={name}")

    def sign(self, name: str, *, days: int = 2) -> tuple[Path, Path]:
        """The files of a certificate for 127.0.0.1, and of its key."""
        request, certificate, extensions = (self._folder / f"{name}.{kind}" for kind in ("csr", "crt", "ext"))
        extensions.write_text("subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n")
        self._openssl("req", *self._new_key(name), "-out", str(request), "-subj", f"/CN={name}")
        self._openssl(
            *("x509", "-req", "-in", str(request), "-out", str(certificate), "-extfile", str(extensions)),
            *("-CA", str(self.certificate), "-CAkey", str(self._folder / f"{self._name}.key"), "-CAcreateserial"),
            *("-days", str(days)),
        )
        return certificate, self._folder / f"{name}.key"

    def _new_key(self, name: str) -> tuple[str, ...]:
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        return (*curve, "-keyout", str(self._folder / f"{name}.key"))

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)

"""The form in which the present server takes each script: as a function, or by its SHA1.

A driver's ``Core`` (``drivers.core``) has one table of forms. ``greeting`` asks what the server understands;
``attempt`` notes here what a server refused, and tries the next form. ``drivers.deploy`` loads all forms that are used
here, so a new one is added there, too. tests/drivers/test_faults.py and tests/client/test_full.py have servers that
refuse a form.
"""

from __future__ import annotations

from mqredis import scripts
from mqredis.errors import AccessDenied


class ScriptForms:
    """Scripts by name, in the form that the server takes. Threads share it without a lock: each method reads an entry
    once."""

    def __init__(self, read_only: bool) -> None:
        self._read_only = read_only
        # run_id of the server process that was asked last; None: none was.
        self.run_id: str | None = None
        # Does it understand the flags line, and are scripts called as functions?
        self.shebang = False
        self.functions = False
        # A script is added at its first use.
        self.known: dict[str, scripts.Form] = {}

    def get(self, name: str) -> scripts.Form:
        """A script in the form this server takes. Raises AccessDenied if only the client is read-only."""
        known = self.known  # before the flags are read: another thread may learn others, with a new table
        found = known.get(name)
        if found is None:
            script, reading = scripts.get(name), self._read_only
            if reading and script.flag != "no-writes":
                raise AccessDenied(
                    "this client is read-only (Settings.read_only), so the call was refused and nothing was done: use "
                    "another client for calls that change something, open a queue or wait"
                )
            found = script.function(reading) if self.functions else script.form(self.shebang, reading)
            known[name] = found
        return found

    def learn(self, run_id: str, shebang: bool, functions: bool) -> None:
        """Remember whether this server process understands ``#!lua``, and whether we may call functions. What another
        one has refused says nothing of it."""
        self.run_id = run_id
        self.shebang = shebang
        self.functions = functions
        self.known = {}

    def no_shebang(self) -> None:
        """Note that the server understands neither ``#!lua`` nor functions."""
        self.shebang = self.functions = False
        self.known = {}

    def no_function(self, name: str) -> bool:
        """Note that the server cannot load or call this script as a function. False: it was not called as a
        function."""
        if not self.get(name).verb.startswith("FCALL"):
            return False
        self.known[name] = scripts.get(name).form(self.shebang, self._read_only)
        return True

    def no_room(self, name: str) -> bool:
        """Note that the server is full, so the script did not run. False: no other form of it runs on a full server."""
        form = None if self.shebang else scripts.get(name).draining()
        if form is None or form == self.known.get(name):
            return False
        self.known[name] = form
        return True

"""Which include lines of lib/ and app/ break the one-way dependencies between rooms.

The table is what the rooms' CMakeLists.txt say after DEPENDS; what a dependency may include, its user may too.
"""

import pathlib
import re


def dependencies(lib):
    """Room -> rooms it may include, itself and transitive ones among them."""
    direct = {}
    for listing in lib.glob("*/CMakeLists.txt"):
        text = re.sub(r"#.*", "", listing.read_text(encoding="utf-8"))
        found = re.search(r"gpt_room\(\s*(\w+)(?:\s+DEPENDS((?:\s+[a-z]\w*)*))?", text)
        if not found or found[1] != listing.parent.name:
            raise ValueError(f"{listing}: no gpt_room({listing.parent.name} …)")
        direct[found[1]] = set((found[2] or "").split())
    allowed = {}

    def resolve(room, path=()):
        if room in path:
            raise ValueError("rooms depend on each other in a circle: " + " → ".join((*path, room)))
        if room not in allowed:
            rooms = {room}
            for dependency in direct[room]:
                rooms |= resolve(dependency, (*path, room))
            allowed[room] = rooms
        return allowed[room]

    for room in direct:
        resolve(room)
    return allowed


def violations(top):
    """One sentence for every include that should not be, led by FILE:LINE."""
    top = pathlib.Path(top)
    allowed = dependencies(top / "lib")
    found = []
    for folder in ("lib", "app"):
        for file in sorted((top / folder).rglob("*")):
            if file.suffix not in (".hpp", ".cpp", ".cu", ".cuh"):
                continue
            room = file.relative_to(top / "lib").parts[0] if folder == "lib" else None
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                include = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
                if not include:
                    continue
                where = f"{file.relative_to(top)}:{number}"
                target = include[1].split("/")[0]
                if folder == "app" and ".." not in include[1].split("/") and (top / "app" / include[1]).exists():
                    continue
                if ".." in include[1].split("/") or target not in allowed:
                    found.append(f'{where}: "{include[1]}" is not in a room: write "room/file.hpp"')
                elif room and target not in allowed[room]:
                    may = ", ".join(sorted(allowed[room] - {room})) or "no other room"
                    found.append(f"{where}: {room} includes {target}, but may include only {may}")
    return found

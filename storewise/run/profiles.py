"""`storewise profiles`: the profiles of this checkout in the user's Snakemake folder.

Snakemake looks for ``--profile NAME`` in the working directory and then in the user's and the
system's configuration folders (`snakemake.cli.get_profile_dir`); the user's is that of platformdirs
for ``snakemake``, which honours ``XDG_CONFIG_HOME``. So a link there makes a name work everywhere.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from platformdirs import site_config_dir, user_config_dir

from storewise.atomic import aside
from storewise.errors import StorewiseError
from storewise.run.runner import workflow_home
from storewise.study.host_classes import NodeClass, parse_classes, text_of
from storewise.yamlfile import nearest, read_yaml

PROFILES = "profiles"
CONFIG = "config.yaml"
#: Loaded by Snakemake from beside the Snakefile, whatever other profile is named.
NOT_INSTALLED = "default"


def user_folder() -> Path:
    """Where Snakemake looks for a user's profiles."""
    return Path(user_config_dir("snakemake", "snakemake"))


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile of this checkout and what stands under its name in the user's folder."""

    name: str
    source: Path
    link: Path

    @property
    def installed(self) -> bool:
        return self.link.is_symlink() and self.link.resolve() == self.source.resolve()

    @property
    def state(self) -> str:
        """In words, for a list."""
        if self.installed:
            return f"installed: snakemake --profile {quote(self.name)}"
        if self.link.is_symlink():
            return f"{self.link} points to {self.link.readlink()}"
        if self.link.exists():
            return f"{self.link} is another profile"
        return "not installed"


def profiles(home: Path | None = None) -> list[Profile]:
    """The profiles that can be installed, by name. `home` is the directory of the Snakefile."""
    place = (home or workflow_home()).resolve() / PROFILES
    folder = user_folder()
    return [
        Profile(path.parent.name, path.parent, folder / path.parent.name)
        for path in sorted(place.glob(f"*/{CONFIG}"))
        if path.parent.name != NOT_INSTALLED
    ]


def find_profile(name: str, home: Path) -> Path:
    """The configuration of a profile given as to Snakemake: by name (of this checkout, of the
    user's folder or of the system's) or by path. StorewiseError where there is none."""
    system = Path(site_config_dir("snakemake", "snakemake"))
    folders = [home / PROFILES / name, Path(name), user_folder() / name, system / name]
    for folder in folders:
        for file in (folder, *sorted(folder.glob("config*.yaml"), reverse=True)):
            if file.is_file():
                return file
    known = [profile.name for profile in profiles(home)]
    raise StorewiseError(
        f"no profile is called {name!r}{nearest(name, known)}; known here: {', '.join(known)}; or "
        "give the path of a profile"
    )


def node_classes(name: str, home: Path) -> dict[str, NodeClass]:
    """The classes of hosts that a profile knows, empty where it has none; ConfigError where they
    cannot be read. (Snakemake would fill in a profile that is a template, `__use_yte__`.)"""
    resources = read_yaml(find_profile(name, home), "profile").data.get("set-resources") or {}
    if isinstance(resources, list):  # as on the command line: RULE:NAME=VALUE
        entries = [str(entry).partition("=") for entry in resources]
        texts = [value for key, _, value in entries if key == "node:node_classes"]
    else:
        texts = [(resources.get("node") or {}).get("node_classes", "")]
    return parse_classes(text_of(texts[-1])) if texts else {}


def install(
    names: Sequence[str] = (), *, force: bool = False, home: Path | None = None
) -> list[Profile]:
    """Link the named profiles (all, where none is named) into the user's folder.

    Nothing that is not a link of ours is replaced unless `force`; then it goes. Nothing is linked
    if one of them is refused. Raises StorewiseError for an unknown name, something in the way, or
    a folder that cannot be written.
    """
    known = {profile.name: profile for profile in profiles(home)}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise StorewiseError(
            f"{', '.join(unknown)}: no such profile to install; there are {', '.join(known)}"
        )
    wanted = [known[name] for name in dict.fromkeys(names)] if names else list(known.values())
    in_the_way = [
        profile
        for profile in wanted
        if not profile.installed and (profile.link.exists() or profile.link.is_symlink())
    ]
    if in_the_way and not force:
        raise StorewiseError(
            f"{'; '.join(profile.state for profile in in_the_way)}. Nothing was changed: rename "
            "what is there, name other profiles, or say --force to replace it"
        )
    for profile in wanted:
        try:
            _link(profile)
        except OSError as error:
            raise StorewiseError(
                f"profile {profile.name} cannot be linked at {profile.link}: {error.strerror}"
            ) from error
    return wanted


def _link(profile: Profile) -> None:
    if profile.installed:
        return
    profile.link.parent.mkdir(parents=True, exist_ok=True)
    if profile.link.is_dir() and not profile.link.is_symlink():
        shutil.rmtree(profile.link)
    with aside(profile.link) as place:
        place.unlink(missing_ok=True)
        place.symlink_to(profile.source, target_is_directory=True)

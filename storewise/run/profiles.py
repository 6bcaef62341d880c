"""Snakemake profiles: where the one is that a user names, and which classes of hosts it knows."""

from __future__ import annotations

from pathlib import Path

from platformdirs import site_config_dir, user_config_dir

from storewise.errors import StorewiseError
from storewise.study.host_classes import NodeClass, parse_classes, text_of
from storewise.yamlfile import nearest, read_yaml


def find_profile(name: str, home: Path) -> Path:
    """The configuration of a profile given as to Snakemake: by name (of the checkout `home`, of the
    user's folder or of the system's) or by path. StorewiseError where there is none.

    The folders are those of `snakemake.cli.get_profile_dir`.
    """
    folders = [Path(of("snakemake", "snakemake")) for of in (user_config_dir, site_config_dir)]
    for folder in (home / "profiles" / name, Path(name), *(place / name for place in folders)):
        for file in (folder, *sorted(folder.glob("config*.yaml"), reverse=True)):
            if file.is_file():
                return file
    known = sorted({path.parent.name for path in home.glob("profiles/*/config.yaml")} - {"default"})
    raise StorewiseError(
        f"no profile is called {name!r}{nearest(name, known)}; known here: {', '.join(known)}; or "
        "give the path of a profile"
    )


def node_classes(name: str, home: Path) -> dict[str, NodeClass]:
    """The classes of hosts that a profile knows, empty where it has none; ConfigError where they
    cannot be read, as in a template (`__use_yte__`), which only Snakemake fills in."""
    resources = read_yaml(find_profile(name, home), "profile").data.get("set-resources") or {}
    if isinstance(resources, list):  # as on the command line: RULE:NAME=VALUE
        entries = [str(entry).partition("=") for entry in resources]
        texts = [value for key, _, value in entries if key == "node:node_classes"]
    else:
        texts = [(resources.get("node") or {}).get("node_classes", "")]
    return parse_classes(text_of(texts[-1])) if texts else {}

"""What a terminal shows."""

from rich.console import Console, RenderableType


def rendered(screen: RenderableType, width: int = 200) -> str:
    """What rich writes of it, without colours and the spaces at the ends of lines."""
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(screen)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())

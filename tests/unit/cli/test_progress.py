"""How far a long task has come, where no terminal shows a bar."""

from storewise.cli.progress import lines, shown


def test_a_line_every_few_seconds():
    texts = []
    update = lines(texts.append, "read", every=0)
    update(5, 10)
    update(6, None)
    lines(texts.append, "sent", size=True, every=0)(1_500_000, 3_000_000)
    assert texts == ["read: 5 of 10", "read: 6", "sent: 1.5 MB of 3.0 MB"]
    lines(texts.append, "read")(5, 10)
    assert len(texts) == 3, "what is quick needs no word"


def test_lines_go_to_standard_error(capsys):
    with shown("reading trials", every=0) as update:
        update(5, 10)
    assert capsys.readouterr().err == "storewise: reading trials: 5 of 10\n"

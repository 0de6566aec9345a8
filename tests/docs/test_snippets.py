"""What the documentation shows is what happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.snippets import Scene, differing, perform, scenes

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SCENES = [scene for page in PAGES for scene in scenes(page)]
LINK = re.compile(r"\]\(([^)#\s]+)?(?:#([^)\s]+))?\)")


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_what_a_page_shows_happens(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.delenv("YAOKI_STORE", raising=False)
    perform(scene, tmp_path)


def test_the_pages_that_teach_have_scenes() -> None:
    """Nothing above is empty because a fence was spelled in a way that is not found."""
    taught = {scene.page.name for scene in SCENES}
    assert {"README.md", "tutorial.md", "how-to.md", "reference.md", "testing.md"} <= taught


@pytest.mark.parametrize("page", [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "AGENTS.md"], ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    """A relative link names a file that exists, and a heading in it."""
    for name, heading in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in name:
            continue
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name}: {name}"
        if heading:
            assert heading in _headings(target), f"{page.name}: {name}#{heading}"


def _headings(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_a_line_that_is_not_printed_is_found() -> None:
    """The comparison is loose about times and spacing, about nothing else."""
    said = ["ticket-17 · COMPLETED 22:42:59 after 6.9 s", "", "Result", "  refunded 4200"]
    assert differing(["ticket-17 · COMPLETED 02:14:08 after 51 ms", "refunded   4200"], said) is None
    assert differing(["ticket-17 · COMPL…", "Result"], said) is None
    assert differing(["refunded 4300"], said) == "refunded 4300"
    assert differing(["refunded 4200", "Result"], said) == "Result"


def test_a_scene_that_prints_something_else_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)  # 3\n```\n")
    with pytest.raises(AssertionError, match="the page says"):
        perform(scenes(page)[0], tmp_path)
    page.write_text("```python file=a.py\n1/0\n```\n```console\n$ python a.py\n$ echo $?\n0\n```\n")
    with pytest.raises(AssertionError, match="the exit code was 1"):
        perform(scenes(page)[0], tmp_path)

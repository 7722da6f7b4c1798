"""Links lead somewhere, and documents name no machine."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.docs.documents import DOCS, ROOT, anchors, documents, prose

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FOREIGN = re.compile(r"/work/|/tmp/|/root/|/home/\w|https?://(?:[\w.-]*\.)?(?:pypi|pythonhosted|npmjs|docker)\.")


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("document", documents(), ids=_name)
def test_relative_links_resolve(document: Path) -> None:
    """Each link to a file of the repository finds it, and its anchor is a heading there."""
    broken = []
    for target in _LINK.findall(prose(document.read_text(encoding="utf-8"))):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        if not file.exists() or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            broken.append(target)
    assert not broken


@pytest.mark.parametrize("document", documents(), ids=_name)
def test_no_machine_and_no_registry_is_named(document: Path) -> None:
    assert _FOREIGN.findall(document.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("picture", sorted((DOCS / "pictures").glob("*.svg")), ids=_name)
def test_pictures_are_used_and_stand_alone(picture: Path) -> None:
    """A picture is well-formed, says what it shows, loads nothing, and is in a document."""
    svg = ElementTree.parse(picture).getroot()
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    assert svg.findtext("{http://www.w3.org/2000/svg}desc")
    text = picture.read_text(encoding="utf-8")
    assert "href=" not in text
    assert "url(http" not in text
    assert "prefers-color-scheme: dark" in text
    assert any(f"pictures/{picture.name})" in document.read_text(encoding="utf-8") for document in documents())


def test_the_chinese_readme_keeps_pace() -> None:
    """Both say the same commands, examples and links."""
    english, chinese = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh-CN.md"))
    for pattern in (r"^    \S.*$", r"`--?[a-z-]+[^`]*`", r"^\| `(\w+)`"):
        ours, theirs = (
            {part.split("  ")[0] for part in re.findall(pattern, text, re.MULTILINE)} for text in (english, chinese)
        )
        assert theirs == ours
    assert set(_LINK.findall(chinese)) - {"README.md"} == set(_LINK.findall(english)) - {"README.zh-CN.md"}
    assert len(re.findall(r"^#", chinese, re.MULTILINE)) == len(re.findall(r"^#", english, re.MULTILINE))

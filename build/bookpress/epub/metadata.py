"""What the package says about the book: Dublin Core, the version, and accessibility (EPUB A11y 1.1).

Stands inside the EPUB stage. Every accessibility statement is computed from the finished pages. There is
no `dcterms:conformsTo`: a claim of WCAG conformance needs a person's judgement (are the descriptions of
the figures any good?), and no program here can make it.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from ebooklib import epub

from ..model import Book


@dataclass(frozen=True)
class Contents:
    """What the pages hold, as far as it matters for access."""

    images: bool
    described: bool  # every image has a text alternative
    mathml: bool
    moving: bool  # some image is animated


def identifier(book: Book) -> str:
    """The book's own URN, or one derived from its slug: the same in every release."""
    if book.config.identifier:
        return book.config.identifier
    return "urn:uuid:" + str(uuid.uuid5(uuid.NAMESPACE_URL, f"{book.config.repository}#{book.config.slug}"))


def describe(package: epub.EpubBook, book: Book, contents: Contents) -> None:
    config = book.config
    package.metadata.clear()  # ebooklib starts with its own name and a random identifier
    package.IDENTIFIER_ID = "identifier"
    package.set_identifier(identifier(book))
    package.title, package.language = config.title, config.language
    package.add_metadata("DC", "title", config.title, {"id": "title"})
    _refine(package, "title", "title-type", "main")
    if config.subtitle:
        package.add_metadata("DC", "title", config.subtitle, {"id": "subtitle"})
        _refine(package, "subtitle", "title-type", "subtitle")
    package.add_metadata("DC", "language", config.language)
    for number, author in enumerate(config.authors, 1):
        package.add_metadata("DC", "creator", author, {"id": f"author-{number}"})
        _refine(package, f"author-{number}", "role", "aut", scheme="marc:relators")
    for name, value in (
        ("publisher", config.publisher),
        ("description", config.description),
        ("date", book.stamp.date),
        ("rights", rights(book)),
        ("source", config.repository),
    ):
        if value:
            package.add_metadata("DC", name, value)
    _meta(package, "schema:version", config.version)
    package.add_metadata("OPF", "meta", "", {"name": "cover", "content": "cover-image"})
    for name, values in accessibility(contents).items():
        for value in values:
            _meta(package, f"schema:{name}", value)


def rights(book: Book) -> str:
    config = book.config
    if config.license and config.license_code and config.license != config.license_code:
        return f"Text: {config.license}. Code: {config.license_code}."
    return config.license or config.license_code


def accessibility(contents: Contents) -> dict[str, list[str]]:
    """schema.org properties of the book, by name."""
    features = ["tableOfContents", "readingOrder", "structuralNavigation", "displayTransformability"]
    if contents.images and contents.described:
        features.append("alternativeText")
    if contents.mathml:
        features += ["MathML", "latex"]  # each formula carries its TeX
    readable = contents.described or not contents.images
    hazard = ["unknown"] if contents.moving else ["none"]
    return {
        "accessMode": ["textual", *(["visual"] if contents.images else [])],
        "accessModeSufficient": [*(["textual"] if readable else []), "textual,visual"],
        "accessibilityFeature": features,
        "accessibilityHazard": hazard,
        "accessibilitySummary": [_summary(contents)],
    }


def _summary(contents: Contents) -> str:
    said = [
        "The text reflows and takes the reader's font, size and colors.",
        "Headings, notes, tables and code are marked up as what they are, in reading order.",
    ]
    if contents.images:
        said.append(
            "Every image has a text alternative."
            if contents.described
            else "Some images have no text alternative."
        )
    if contents.mathml:
        said.append("Formulas are MathML with their TeX source as alternative.")
    said.append("Checked by programs only; conformance to WCAG has not been judged by a person.")
    return " ".join(said)


def _meta(package: epub.EpubBook, name: str, value: str) -> None:
    package.add_metadata("OPF", "meta", value, {"property": name})


def _refine(package: epub.EpubBook, target: str, name: str, value: str, scheme: str = "") -> None:
    about = {"refines": f"#{target}", "property": name}
    package.add_metadata("OPF", "meta", value, about | ({"scheme": scheme} if scheme else {}))

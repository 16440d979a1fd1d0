"""What the file says about itself: the information dictionary and the XMP packet, equal to one another.

In: the book's configuration and stamp; no clock. Out: bytes for the catalog. Claims PDF/UA-1.
"""

from __future__ import annotations

from datetime import UTC, datetime
from xml.sax.saxutils import escape

from ..model import Config, Stamp
from .objects import dictionary, text

_PACKET = """<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/"
 xmlns:xmp="http://ns.adobe.com/xap/1.0/" xmlns:pdf="http://ns.adobe.com/pdf/1.3/"
 xmlns:xmpRights="http://ns.adobe.com/xap/1.0/rights/" xmlns:pdfuaid="http://www.aiim.org/pdfua/ns/id/">
<dc:format>application/pdf</dc:format>
<dc:title><rdf:Alt><rdf:li xml:lang="x-default">{title}</rdf:li></rdf:Alt></dc:title>
<dc:creator><rdf:Seq>{creators}</rdf:Seq></dc:creator>
<dc:description><rdf:Alt><rdf:li xml:lang="x-default">{description}</rdf:li></rdf:Alt></dc:description>
<dc:language><rdf:Bag><rdf:li>{language}</rdf:li></rdf:Bag></dc:language>
<dc:publisher><rdf:Bag><rdf:li>{publisher}</rdf:li></rdf:Bag></dc:publisher>
<dc:rights><rdf:Alt><rdf:li xml:lang="x-default">{license}</rdf:li></rdf:Alt></dc:rights>
<dc:identifier>{identifier}</dc:identifier>
<xmp:CreateDate>{date}</xmp:CreateDate><xmp:ModifyDate>{date}</xmp:ModifyDate>
<xmp:CreatorTool>{tool}</xmp:CreatorTool><pdf:Producer>{producer}</pdf:Producer>
<pdfuaid:part>1</pdfuaid:part>
</rdf:Description></rdf:RDF></x:xmpmeta>
<?xpacket end="w"?>"""

TOOL = "bookpress"


def _moment(stamp: Stamp) -> datetime:
    return datetime.fromtimestamp(stamp.epoch, UTC)


def _producer(stamp: Stamp) -> str:
    version = stamp.tools.get("weasyprint") or stamp.tools.get("WeasyPrint")
    return f"WeasyPrint {version}" if version else "WeasyPrint"


def information(config: Config, stamp: Stamp) -> bytes:
    """The Info dictionary."""
    date = text(_moment(stamp).strftime("D:%Y%m%d%H%M%SZ"))
    entries = {"Title": text(config.title), "CreationDate": date, "ModDate": date}
    if config.authors:
        entries["Author"] = text(", ".join(config.authors))
    if config.description:
        entries["Subject"] = text(config.description)
    entries |= {"Creator": text(TOOL), "Producer": text(_producer(stamp))}
    return dictionary(entries)


def xmp(config: Config, stamp: Stamp) -> bytes:
    """The XMP packet."""
    values = {
        "title": config.title, "description": config.description, "language": config.language,
        "publisher": config.publisher, "license": config.license,
        "identifier": config.identifier or f"{config.slug}-{stamp.version}",
        "date": _moment(stamp).strftime("%Y-%m-%dT%H:%M:%SZ"), "tool": TOOL, "producer": _producer(stamp),
    }  # fmt: skip
    escaped = {k: escape(v) for k, v in values.items()}
    creators = "".join(f"<rdf:li>{escape(a)}</rdf:li>" for a in config.authors)
    return _PACKET.format(creators=creators, **escaped).encode()

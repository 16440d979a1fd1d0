"""Room for page numbers: once a block and target, in every block of a long register."""

from __future__ import annotations

from dataclasses import replace

from lxml import etree

from bookpress.pdf import prepare

COUNT = 2000


def test_each_item_of_a_register_has_room_for_its_page_number():
    items = "".join(
        f'<li data-line="{n}"><code>m{n}</code> <a href="book:a#b">one</a></li>' for n in range(COUNT)
    )
    items += '<li data-line="0"><a href="book:a#b">one</a>, <a href="book:a#b">again</a></li>'
    root = etree.fromstring(f"<section><ul>{items}</ul></section>")
    setting = prepare.Setting("T", "en", 88, "", "T", 400)
    prepare._links(root, replace(setting, digits=(("book:a#b", 3),)))
    slots = [len(item.findall(".//span[@class='slot']")) for item in root.iter("li")]
    assert slots == [1] * (COUNT + 1)

"""What a report's pages say and lead to, without a browser."""

from __future__ import annotations

import random
import re
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from bench.__main__ import main
from bench.analysis.cell_metrics import metrics_table
from bench.analysis.machines import machine
from bench.analysis.stats.across import iqm, mean_of_tasks, seed_bootstrap
from bench.analysis.stats.tiers import tiers
from bench.records.storage.current import read_current
from bench.report.board import Board, read
from bench.report.figures.looks import looks
from bench.report.links import slug
from bench.report.pages.index import index, main_table
from bench.report.pages.render import prose, render
from bench.report.standing import standing
from bench.report.tables.overview import speeds
from bench.report.tables.table import Heading, Table, name_cell
from bench.report.write import build, main_table_as, report


def row(table, label: str) -> dict[str, tuple[str, str | None]]:
    """The cells of a method's row by heading."""
    found = next(cells for cells in table[1:] if cells[0][1] == label)
    return {heading: cell for (heading, _), cell in zip(table[0], found, strict=True)}


def test_every_link_leads_to_a_file_and_a_place_in_it(made, pages, parse):
    out, _ = made
    known = {path.resolve(): page for path, page in pages(out)}
    links = [(path, link) for path, page in known.items() for link in page.links]
    assert len(known) == 1 + 1 + 2 + 7 + (1 + 3) + 2 and len(links) > 300
    for path, link in links:
        file, _, anchor = link.partition("#")
        target = (path.parent / unquote(file)).resolve() if file else path
        assert target.is_file(), (path, link)
        assert not anchor or anchor in known[target].ids, (path, link)
    reached, waiting = set(), [out.resolve() / "index.html"]
    while waiting:
        path = waiting.pop()
        if path not in reached:
            reached.add(path)
            waiting += [(path.parent / unquote(link.partition("#")[0])).resolve() for link in known[path].links
                        if link.partition("#")[0].endswith(".html")]  # fmt: skip
    assert reached == set(known)  # from the first page


def test_no_id_stands_twice_in_a_page(made, pages):
    for path, page in pages(made[0]):
        assert len(set(page.ids)) == len(page.ids), path


def test_nothing_is_asked_for_from_outside(made, pages):
    out, _ = made
    for path, page in pages(out):
        inside = [name for name in page.resources if not name.startswith(("#", "data:image/png;base64,"))]
        assert set(inside) <= {"data:,", "../page.css"}, path
    for path in [*out.rglob("*.html"), *out.rglob("*.css"), *out.rglob("*.svg")]:
        content = re.sub(
            r' xmlns(:\w+)?="[^"]*"|<!DOCTYPE[^>]*>|<metadata>.*?</metadata>',
            "",
            path.read_text(encoding="utf-8"),
            flags=re.DOTALL,
        )
        assert not re.search(r"https?://|@import|url\((?!#)", content), path


def test_figures_on_disk_are_well_formed(made):
    found = list(made[0].glob("figures/*.svg"))
    assert len(found) > 20 and all(ElementTree.parse(path).getroot().get("viewBox") for path in found)


def test_a_hostile_name_is_text_everywhere(made, pages, hostile):
    out, _ = made
    for path in out.rglob("*"):
        if path.suffix in (".html", ".svg"):
            assert "<script>alert" not in path.read_text(encoding="utf-8"), path
    page = next(page for path, page in pages(out) if path.name == f"{slug(hostile)}.html")
    assert hostile in page.text and "is not part of this installation" in page.text
    tex = (out / "tables" / "overall.tex").read_text()
    assert r"\textless{}script\textgreater{}alert('x')\textless{}/script\textgreater{}\&" in tex
    assert r"\$\{\}" in tex


def test_agreement_of_orders_is_shown_and_methods_without_any_are_named(made, pages):
    page = next(page for path, page in pages(made[0]) if path.parent.name == "tasks")
    assert "Without a removal order: none, voita." in page.text
    assert "agreement" in page.ids and any(table[0][0][0] == "methods" for table in page.tables)


def test_its_numbers_are_those_of_frame_and_statistics(made, parse):
    out, folder = made
    table = metrics_table(read_current(folder)[0].values())
    page = parse((out / "index.html").read_text())
    ranked = [cells[0][1] for cells in page.tables[0][1:] if cells[2][0] != "–"]
    assert ranked[-2:] == ["random", "voita"] and len(ranked) == 5  # trained methods come after all scores
    scores = [
        table[table["data"] == data].pivot(index="label", columns="seed", values="area").loc[ranked].to_numpy()
        for data in ("alpha", "beta")
    ]
    expected = seed_bootstrap(mean_of_tasks, scores)
    middle = seed_bootstrap(iqm, scores)
    members = tiers([100 * task[:-1] for task in scores], 0.5).members  # those of a kind
    across = next(found for found in page.tables if found[0][1][0].startswith("IQM"))
    for place, label in enumerate(ranked):
        got = row(page.tables[0], label)
        interval = f"[{expected.low[place]:.3f}, {expected.high[place]:.3f}]"
        assert got["area"][0] == f"{expected.value[place]:.3f} {interval}"
        assert float(got["area"][1]) == pytest.approx(expected.value[place])
        own = table[table["label"] == label].groupby("seed")[["at50", "forward", "speedup32"]].mean()
        assert float(got["at 50 %"][1]) == pytest.approx(own["at50"].mean())
        assert got["at 50 %"][0] == f"{100 * own['at50'].mean():.1f} ±{100 * own['at50'].std():.1f}"
        assert float(got["speed-up, b32"][1]) == pytest.approx(own["speedup32"].mean())
        assert label == "voita" or place in members[int(got["tier"][0]) - 1]
        assert row(across, label)["IQM of area"][0].startswith(f"{middle.value[place]:.3f} [{middle.low[place]:.3f},")
    assert f"voita has the largest area, {expected.value[-1]:.3f}" in page.text
    assert "leave the weights alone, controls apart, michel has the largest" in page.text


def test_methods_that_remove_neurons_or_nothing_are_shown_and_not_ranked(made, parse):
    table = parse((made[0] / "index.html").read_text()).tables[0]
    assert [cells[0][1] for cells in table[-3:]] == ["none", "amp", "voita"]  # the last of their kind
    assert row(table, "amp")["kind"][0] == "score, heads and neurons" and row(table, "none")["tier"][0] == "–"


def test_each_number_leads_to_its_records_with_their_origin(made, parse):
    out, folder = made
    page = parse((out / "records.html").read_text())
    assert f"{slug('michel')}--" + slug("classification.alpha.model") in page.ids
    links = [link for link in page.links if link.endswith(".json")]
    assert len(links) == 7 * 2 * 6
    assert all((out / unquote(link)).resolve().is_relative_to(folder.resolve()) for link in links)
    assert "commit " + "a" * 40 in page.text and "A, cpu, float32, 1 thread" in page.text


@pytest.mark.usefixtures("undrawn")
def test_records_far_from_the_report_are_named_and_not_linked(run, tmp_path, parse):
    folder = run(seeds=1, labels=("michel", "random"), data=("alpha",))
    page = parse(report(folder, tmp_path / "other" / "place").with_name("records.html").read_text())
    assert not [link for link in page.links if link.endswith(".json")] and "seed0.json" in page.text


@pytest.mark.usefixtures("undrawn")
def test_too_few_seeds_for_an_interval_are_said_so(run, parse):
    folder = run(seeds=2, labels=("michel", "ae", "random"), data=("alpha",))
    page = parse(report(folder, folder / "report").read_text())
    assert "intervals need at least 5 seeds" in page.text and "2 seeds cannot show any method" in page.text
    assert "±" in row(page.tables[0], "michel")["area"][0] and "[" not in row(page.tables[0], "michel")["area"][0]
    assert {cells[2][0] for cells in page.tables[0][1:]} == {"1"}  # one tier


@pytest.mark.usefixtures("undrawn")
def test_one_seed_and_one_task_make_a_report(run, parse):
    folder = run(seeds=1, data=("alpha",), labels=("michel",))
    page = parse(report(folder, folder / "report").read_text())
    assert "Only michel is ranked, so there is nothing to compare it with." in page.text
    assert row(page.tables[0], "michel")["area"][0] and "±" not in row(page.tables[0], "michel")["area"][0]


@pytest.mark.usefixtures("undrawn")
def test_a_method_that_lacks_a_cell_is_named_and_not_ranked(run, write, parse):
    folder = run(seeds=5, labels=("michel", "random"), data=("alpha",))
    write("ae", 99, 0, "alpha")
    page = parse(report(folder, folder / "report").read_text())
    assert "Not ranked: ae (no result for seeds 1, 2, 3, 4 on classification)." in page.text
    assert [cells[0][1] for cells in page.tables[0][1:]] == ["michel", "random", "ae"]
    assert row(page.tables[0], "ae")["tier"][0] == "–"


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("drawn", ["index.html", "tasks"])
def test_a_model_no_better_than_chance_ranks_nothing(write, changed, parse, drawn):
    for seed in range(2):
        folder = write("michel", 80, seed)
    board = read(folder)
    chance = {"chance": 0.85}  # of 0.9, with 100 examples
    records = {path: changed(record, result=chance) for path, record in board.records.items()}
    files = build(Board(folder, records), folder / "report")
    page = parse(next(content for name, content in files.items() if name.startswith(drawn)).decode())
    assert (
        "No area is shown, as the unpruned model is not better than chance by 2 standard errors: classification "
        "(90.0 %, chance 85.0 %). So no method is ranked." in page.text
    )


@pytest.mark.slow
def test_times_of_two_machines_are_shown_apart(run, write, parse):
    folder = run(seeds=1, labels=("michel", "random"), data=("alpha",))
    write("michel", 80, 1, "alpha", processor="B")
    out = report(folder, folder / "report").parent
    page = parse((out / "index.html").read_text())
    assert not any("speed" in heading for heading, _ in page.tables[0][0])
    apart = [table for table in page.tables if any("speed" in heading for heading, _ in table[0])]
    assert [[cells[0][1] for cells in table[1:]] for table in apart] == [["michel", "random"], ["michel"]]
    assert "on B, cpu, float32, 1 thread" in page.text and "records of several processors: A (2), B (1)" in page.text
    assert {path.name for path in (out / "figures").glob("overall-latency*.svg")} == {
        "overall-latency-1.svg",
        "overall-latency-2.svg",
    }


def test_speeds_of_a_machine_are_means_over_seeds_of_methods_with_all_tasks(make_record, board_of):
    times = {"alpha": {"0": [2.0], "4": [1.0]}, "beta": {"0": [2.0], "4": [0.5]}}
    timed = [
        make_record("michel", data, seed=seed, samples=samples, provenance={"processor": processor})
        for data, samples in times.items()
        for seed, processor in ((0, "A"), (1, "A"), (2, "B"))
    ]
    timed.append(make_record("ae", "beta", samples=times["beta"]))
    here, there = speeds(board_of(timed))
    assert [(row[0].shown, row[1].shown, row[1].spread) for row in here.rows] == [("michel", "3.00", " ±0.00")]
    assert [(row[0].shown, row[1].shown, row[1].spread) for row in there.rows] == [("michel", "3.00", "")]


def test_a_cell_that_was_timed_elsewhere_is_of_the_machine_that_timed_it(make_record):
    record = make_record()
    assert machine(record).startswith("A, ")
    latency = record.measured.latency.model_copy(update={"processor": "B"})
    elsewhere = record.model_copy(update={"measured": record.measured.model_copy(update={"latency": latency})})
    assert machine(elsewhere).startswith("B, ")


@pytest.mark.slow
def test_the_same_records_give_the_same_bytes_in_any_order(run):
    folder = run(seeds=2, labels=("michel", "random"), data=("alpha",))
    board = read(folder)
    expected = build(board, folder / "report")
    shuffled = list(board.records.items())
    random.Random(0).shuffle(shuffled)
    assert build(Board(folder, dict(shuffled), board.notes), folder / "report") == expected


def test_every_colour_in_a_page_is_a_role(made):
    found = re.findall(r"<svg.*?</svg>", (made[0] / "index.html").read_text(), re.DOTALL)
    assert len(found) > 1
    for inline in found:
        assert not re.search(r"#[0-9a-f]{6}", inline)


@pytest.mark.usefixtures("undrawn")
def test_a_run_that_was_not_timed_has_no_speed(run, parse):
    folder = run(seeds=1, labels=("michel", "random"), data=("alpha",), timed=False)
    out = report(folder, folder / "report").parent
    page = parse((out / "index.html").read_text())
    assert not any("speed" in heading for table in page.tables for heading, _ in table[0])
    assert "A, not timed" in (out / "records.html").read_text()


def test_no_records_and_no_results_are_one_line(tmp_path, run, capsys):
    assert main(["report", str(tmp_path / "nothing")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_table_alone_stands_alone(run, parse, capsys):
    folder = run(seeds=2, labels=("michel", "random"), data=("alpha",))
    page = parse(main_table_as(read(folder), "html"))
    assert not page.links and set(page.resources) == {"data:,"}
    assert row(page.tables[0], "michel")["area"][1]
    assert main(["leaderboard", str(folder), "--format", "latex"]) == 0
    assert r"\toprule" in capsys.readouterr().out


def test_what_is_not_markup_is_escaped():
    attack = '"><script>'
    table = Table("t", attack, (Heading(attack, "h", attack),), ((name_cell(attack, attack),),), (attack,))
    page = render("leaderboard.html", title=attack, root="", table=table).decode()
    assert page.count("&#34;&gt;&lt;script&gt;") == 10 and attack not in page
    assert prose("One `x<y` line\nof it.\n\nTwo.") == "<p>One <code>x&lt;y</code> line of it.</p><p>Two.</p>"


def test_lists_and_formulas_of_a_docstring_stay_apart():
    text = "It is\n\n    f(x) = <y>\n      + z\n\nof these:\n- `a`, which\n  goes on\n- b\n\nReturns (n,)."
    assert prose(text) == (
        "<p>It is</p><pre>f(x) = &lt;y&gt;\n  + z</pre><p>of these:</p><ul><li><code>a</code>, which goes on</li>"
        "<li>b</li></ul><p>Returns (n,).</p>"
    )


@pytest.mark.parametrize("pair", [("a/b", "a_b"), ("A", "a"), (".", ".."), ("x" * 99, "x" * 98), ("é", "è"), ("", "x")])
def test_each_name_has_a_file_of_its_own(pair):
    one, other = map(slug, pair)
    assert one != other and re.fullmatch(r"[a-z0-9._=+-]+", one) and one.strip(".") and len(one) < 80


def test_a_method_stands_beside_the_random_control_of_its_own_parts(run, write, undrawn, parse):
    folder = run(seeds=2, labels=("michel", "random", "amp"), data=("alpha",))
    for seed in range(2):
        write("random-both", 50, seed, "alpha", neurons=True, control=True)
    out = report(folder, folder / "report").parent
    for label, control in (("amp", "random-both"), ("michel", "random")):
        page = parse((out / "methods" / f"{label}.html").read_text())
        assert f"random control {control} " in page.text
        assert f"{label} against random removal" in page.text or f"{label} (line, with a band" in page.text
    assert "random control random-both" not in parse((out / "methods" / "random-both.html").read_text()).text


@pytest.mark.usefixtures("undrawn")
def test_what_columns_mean_is_text_beside_a_table_too(run, parse):
    board = read(run(seeds=2, data=("alpha",)))
    found = standing(board, board.tasks)
    page = parse(index(board, found, looks(board))["index.html"].decode())
    explained = main_table(board, found).explained
    assert len(explained) > 5
    for shown, help_ in explained:
        assert f"{shown} {help_}" in page.text

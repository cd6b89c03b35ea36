"""Tests the views memory, time, training, difference, numerics and weights in a real browser."""
import csv
import io
import json
import pathlib

from page_case import Keys, PageCase, main

# Catches the files that the page saves.
CATCH_DOWNLOADS = """
    window.caught = null;
    URL.createObjectURL = (blob) => { blob.text().then((text) => { window.caught = text; }); return 'blob:null/none'; };
    HTMLAnchorElement.prototype.click = function () {};"""


class Views(PageCase):
    def at(self, chart: str, share_x: float, share_y: float) -> tuple[float, float]:
        box = self.browser.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center'}); const {left, top, width, height} = document.querySelector(arguments[0]).getBoundingClientRect(); return [left, top, width, height]", chart)
        return box[0] + box[2] * share_x, box[1] + box[3] * share_y

    def mouse(self, kind: str, x: float, y: float, **more):
        self.browser.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1, **more})

    def click_at(self, x: float, y: float):
        self.mouse("mousePressed", x, y), self.mouse("mouseReleased", x, y)

    def slide(self, label: str, value: float):
        self.browser.run("const slider = document.querySelector(`input[aria-label='${arguments[0]}']`); slider.value = arguments[1]; slider.dispatchEvent(new Event('input'))", label, value)

    def downloaded(self) -> str:
        return self.browser.wait("window.caught")

    def test_only_views_with_data_have_a_tab(self):
        self.open("training")
        self.assertEqual(self.browser.texts(".tabs [role=tab]"), ["Graph", "Memory", "Time", "Training", "Numerics", "Weights"])
        self.open("flat", 50)
        self.assertEqual(self.browser.texts(".tabs [role=tab]"), ["Graph", "Weights"])

    def test_an_empty_page_says_so(self):
        empty = {"version": 1, "made_by": "test", "title": "", "strings": [], "paths": {"parent": [], "segment": []}, "types": [], "attributes": [], "costs": [], "kernels": [], "models": [], "runs": []}
        self.browser.driver.get(self.pages.of(empty, "empty").as_uri())
        self.browser.wait("document.querySelector('.empty')")
        self.assertIn("no data", self.browser.texts("main")[0])

    def test_tabs_answer_to_arrow_keys(self):
        self.open("training")
        self.browser.run("document.getElementById('tab-graph').focus()")
        self.browser.keys(Keys.ARROW_RIGHT)
        self.browser.wait("document.body.dataset.ready === 'memory' && document.activeElement.id === 'tab-memory'")

    def test_entry_points_are_tabs(self):
        self.open("training")
        self.assertEqual(self.browser.texts(".entries [role=tab]"), ["train_step", "loss"])
        self.browser.run("document.querySelector('.entries [aria-selected=true]').focus()")
        self.browser.keys(Keys.ARROW_RIGHT)
        self.browser.wait("genesis.currentEntry.name === 'loss' && document.activeElement.textContent === 'loss'")
        self.browser.click(".entries button", "train_step")
        self.browser.wait("genesis.currentEntry.name === 'train_step'")

    def test_memory_shows_the_arena_and_its_peak(self):
        self.open("training")
        self.browser.tab("memory")
        self.browser.wait("document.querySelector('.block-canvas').dataset.drawn")
        plan = self.browser.run("return genesis.currentEntry.plan")
        alive = sum(first <= plan["peak_step"] <= last for first, last in zip(plan["blocks"]["first"], plan["blocks"]["last"]))
        self.assertIn(f"{alive} tensors alive at step {plan['peak_step']}, the peak", self.browser.texts(".memory h3"))
        self.mouse("mouseMoved", *self.at(".block-canvas", 0.45, 0.6))
        tip = self.browser.wait("!document.querySelector('.tip').hidden && document.querySelector('.tip').textContent")
        for word in ("model.layers.", "MiB", "steps", "activation"):
            self.assertIn(word, tip)
        self.click_at(*self.at(".block-canvas", 0.45, 0.6))
        self.browser.wait("document.querySelector('.chosen button')").click()
        self.browser.wait("document.body.dataset.ready === 'graph' && genesis.graph.selected >= 0")

    def test_memory_at_another_step_and_by_layer(self):
        self.open("training")
        self.browser.tab("memory")
        self.slide("Step", 10)
        self.browser.wait("[...document.querySelectorAll('.memory h3')].some((title) => title.textContent.endsWith('alive at step 10'))")
        self.assertIn("model.layers.0", self.browser.texts(".columns th"))
        alive = self.browser.run("return genesis.currentEntry.plan.blocks.first.filter((first, i) => first <= 10 && 10 <= genesis.currentEntry.plan.blocks.last[i]).length")
        self.assertEqual(len(self.browser.find(".arena-strip > div")), alive)
        self.assertIn("Begins here: ", self.browser.texts(".moment p")[0])

    def test_budgets(self):
        self.open("training")
        self.browser.tab("memory")
        self.assertIn("nothing is computed again", self.browser.texts(".budget-text")[0])
        self.slide("Memory budget", 2)
        self.assertIn("12 values computed again", self.browser.texts(".budget-text")[0])
        self.assertEqual(len(self.browser.find(".budgets tbody tr")), 12)

    def test_time_sorts_groups_and_exports_a_trace(self):
        self.open("training")
        self.browser.tab("time")
        self.browser.wait("document.querySelector('.block-canvas').dataset.drawn")
        self.browser.run(CATCH_DOWNLOADS)
        self.browser.click("button", "Export trace")
        events = json.loads(self.downloaded())["traceEvents"]
        steps = self.browser.run("return genesis.currentEntry.measured.steps")
        spans = self.browser.run("return genesis.currentEntry.measured.timeline.spans")
        run, alone = ([event for event in events if event["ph"] == "X" and event["pid"] == process] for process in (1, 2))
        self.assertEqual(len(run), len(spans["step"]))
        self.assertEqual(len(alone), len(steps["start_us"]))
        self.assertEqual({event["tid"] for event in run}, {0, 1})
        self.assertEqual([event["args"]["name"] for event in events if event["name"] == "thread_name"], ["thread 0", "thread 1", "cpu, one step after the other"])
        self.assertEqual([event["args"]["bytes"] for event in events if event["ph"] == "C" and event["pid"] == 2], self.browser.run("return genesis.currentEntry.plan.live_bytes"))
        self.browser.run("const select = document.querySelector('select[aria-label=\"Table by\"]'); select.value = 'op'; select.dispatchEvent(new Event('change'))")
        rows = self.browser.texts(".time tbody tr td:first-child")
        self.assertIn("linear", rows)
        self.browser.click(".table th button", "Steps")
        counts = [int(text) for text in self.browser.texts(".table tbody td:nth-child(2)")]
        self.assertEqual(counts, sorted(counts, reverse=True))

    def test_time_zooms(self):
        self.open("training")
        self.browser.tab("time")
        self.browser.run("document.querySelector('.block-canvas').focus()")
        self.browser.wait("document.querySelector('.block-canvas').dataset.drawn")
        self.browser.run("window.before = document.querySelector('.block-canvas').toDataURL()")
        self.browser.keys("+", "+", Keys.ARROW_RIGHT)
        self.browser.wait("document.querySelector('.block-canvas').toDataURL() !== window.before")

    def test_threads_have_tracks_and_one_step_after_the_other_is_a_choice_away(self):
        self.open("training")
        self.browser.tab("time")
        self.browser.wait("document.querySelector('.block-canvas').dataset.drawn")
        busy = self.browser.texts(".columns th")
        self.assertEqual(busy[:2], ["thread 0", "thread 1"])
        self.mouse("mouseMoved", *self.at(".block-canvas", 0.5, 0.7))
        tip = self.browser.wait("!document.querySelector('.tip').hidden && document.querySelector('.tip').textContent")
        self.assertIn("thread 1", tip)
        self.browser.run("const select = document.querySelector('select[aria-label=Show]'); select.value = 'alone'; select.dispatchEvent(new Event('change'))")
        self.browser.wait("document.querySelector('.block-canvas').dataset.drawn")
        self.mouse("mouseMoved", *self.at(".block-canvas", 0.5, 0.5))
        tip = self.browser.wait("!document.querySelector('.tip').hidden && document.querySelector('.tip').textContent")
        self.assertIn("one step after the other", tip)

    def test_time_by_key_filter_and_area(self):
        self.open("training")
        self.browser.tab("time")
        self.browser.wait("document.querySelector('.block-canvas').dataset.drawn")
        self.browser.keys(".", ".")
        first = self.browser.texts(".chosen .name")[0]
        self.browser.keys(".", "f", "w", "d", ",")
        self.assertEqual(self.browser.texts(".chosen .name")[0], first)
        self.browser.keys("0", Keys.ESCAPE)
        (left, y), (right, _) = self.at(".block-canvas", 0.4, 0.5), self.at(".block-canvas", 0.6, 0.5)
        self.mouse("mousePressed", left, y, modifiers=8), self.mouse("mouseMoved", right, y, buttons=1, modifiers=8), self.mouse("mouseReleased", right, y, modifiers=8)
        self.assertRegex(self.browser.texts(".chosen")[0], r"ms from .* ms \d+ pieces of work, .* together: linear .* in \d+")
        self.browser.click("input[type=search]").send_keys("/swiglu$/")
        self.browser.wait("[...document.querySelectorAll('.time .table tbody td:first-child')].every((cell) => cell.textContent.endsWith('swiglu'))")
        self.assertEqual(len(self.browser.find(".time .table tbody tr")), 24)

    def test_ranks_have_tracks_and_memory_each(self):
        self.open("ranks")
        self.browser.wait("document.querySelector('.block-canvas').dataset.drawn")
        text = self.browser.texts(".time")[0]
        for word in ("rank 0, main stream", "rank 1, stream of exchanges", "communication", "% hidden"):
            self.assertIn(word, text)
        self.browser.tab("memory")
        ranks = self.browser.texts(".ranks")[0]
        for word in ("Each of 2 ranks (data=2, zero 1)", "118 MiB along 'data'", "optimizer"):
            self.assertIn(word, ranks)
        self.assertEqual(len(self.browser.find(".ranks tbody tr")), 2)
        self.assertEqual(len(self.browser.find(".rank-bar > div > div")), 6)

    def test_training_smooths_compares_and_exports(self):
        self.open("training")
        self.browser.tab("training")
        self.assertEqual([text.split()[0] for text in self.browser.texts("figcaption")], ["loss", "evaluation_loss", "lr", "grad_norm", "items_per_second"])
        curves = "[...document.querySelector('figure svg').querySelectorAll('path.line')].map((path) => path.getAttribute('d'))"
        before = self.browser.wait(curves)
        self.assertEqual(len(before), 2)
        self.slide("Smoothing", 0.95)
        self.assertNotEqual(self.browser.run(f"return {curves}"), before)
        self.assertEqual(len(self.browser.find("figure:nth-child(2) circle")), 16 + 12)
        self.mouse("mouseMoved", *self.at("figure svg", 0.5, 0.5))
        self.browser.wait("!document.querySelector('figure .tip').hidden && /run-a: .*run-b: /.test(document.querySelector('figure .tip').textContent)")
        self.browser.click(".run-list input")
        self.assertEqual(len(self.browser.run(f"return {curves}")), 1)
        self.browser.run(CATCH_DOWNLOADS)
        self.browser.click("button", "CSV")
        rows = list(csv.DictReader(io.StringIO(self.downloaded())))
        self.assertEqual(len(rows), 300)
        self.assertEqual(float(rows[7]["loss"]), self.browser.run("return genesis.page.json.runs[1].columns[1].values[7]"))

    def test_a_drag_looks_at_a_part_of_all_curves_and_a_double_click_at_all(self):
        self.open("training")
        self.browser.tab("training")
        ticks = "[...document.querySelectorAll('figure:nth-child(1) .axes text')].map((text) => text.textContent)"
        before, (left, y), (right, _) = self.browser.wait(ticks), self.at("figure svg", 0.4, 0.5), self.at("figure svg", 0.6, 0.5)
        self.mouse("mousePressed", left, y), self.mouse("mouseMoved", right, y, buttons=1), self.mouse("mouseReleased", right, y)
        self.browser.wait("genesis.panes.get('training').window")
        first, last = self.browser.run("return genesis.panes.get('training').window")
        self.assertTrue(100 < first < 170 < 210 < last < 260, (first, last))
        self.assertNotEqual(self.browser.run(f"return {ticks}"), before)
        self.assertTrue(self.browser.run("return [...genesis.panes.get('training').charts.values()].every((chart) => chart.window)"))
        self.browser.run("document.querySelector('figure svg').dispatchEvent(new MouseEvent('dblclick'))")
        self.assertEqual(self.browser.run(f"return {ticks}"), before)
        self.browser.run("document.querySelector('figure svg').focus()")
        self.browser.keys("+", Keys.ARROW_RIGHT, "0")
        self.assertEqual(self.browser.run(f"return {ticks}"), before)

    def test_numbers_by_name_and_over_the_whole_width(self):
        self.open("training")
        self.browser.tab("training")
        self.browser.click("input[type=search]").send_keys("/loss$/")
        self.browser.wait("document.querySelectorAll('figure').length === 2")
        self.browser.click("figcaption button")
        self.browser.wait("document.querySelector('figure.wide svg').getAttribute('height') === '420'")

    def test_log_axes_have_round_ticks(self):
        self.open("training")
        self.browser.tab("training")
        for label in self.browser.find(".toolbar label"):
            if label.text.strip() in ("log y", "log x"):
                label.click()
        ticks = self.browser.run("return [...document.querySelectorAll('figure .axes text')].map((text) => text.textContent)")
        self.assertIn("100", ticks)
        self.assertIn("5", ticks)

    def test_difference(self):
        self.open("difference")
        self.assertEqual(self.browser.run("return document.body.dataset.ready"), "difference")
        self.assertIn("15 nodes added, 1 gone, 1 changed", self.browser.texts(".difference")[0])
        self.assertIn("op: linear -> matmul", self.browser.texts(".difference td"))
        self.browser.click(".difference td button", "model.layers.4.mlp.swiglu")
        self.browser.wait("document.body.dataset.ready === 'graph' && document.querySelector('.details h2')?.textContent === 'swiglu'")
        self.assertEqual(self.browser.run("return genesis.graph.mode"), "change")
        self.assertIn("added", self.browser.texts(".details td"))

    def test_numerics(self):
        self.open("training")
        self.browser.tab("numerics")
        text = self.browser.texts(".numerics")[0]
        for word in ("element 17 differs", "0.5 against 0.51", "3 NaN", "post_attention_layernorm"):
            self.assertIn(word, text)
        self.assertEqual(len(self.browser.find(".histogram rect")), 80)

    def test_numerics_lead_to_the_graph(self):
        self.open("training")
        self.browser.tab("numerics")
        self.browser.click(".numerics button", "Show in the graph")
        self.browser.wait("document.body.dataset.ready === 'graph' && genesis.graph.selected >= 0")

    def test_the_first_value_that_is_not_finite_with_its_neighbors(self):
        self.open("nonfinite")
        text = self.browser.texts(".numerics")[0]
        for word in ("The first node with a value that is not finite", "It gave", "7 NaN, 2 +∞", "model.layers.0.mlp.gate_proj.linear", "No finite value"):
            self.assertIn(word, text)
        self.assertEqual(len(self.browser.find(".histogram rect")), 8)
        self.browser.click(".neighbors button", "input 0")
        self.browser.wait("document.body.dataset.ready === 'graph' && document.querySelector('.details h2')?.textContent === 'linear'")

    def test_weights(self):
        self.open("training")
        self.browser.tab("model")
        self.browser.click("input[aria-label^=Filter]").send_keys("layers.7 q_proj")
        self.browser.wait("document.querySelectorAll('.model .table tbody tr').length === 1")
        self.assertIn("architecture", self.browser.texts(".model .facts th"))

    def test_weights_show_their_values(self):
        self.open("nonfinite")
        self.browser.tab("model")
        self.assertIn("Deviation", " ".join(self.browser.texts(".model .table th")))
        buttons = self.browser.find(".model .table tbody td:first-child button")
        buttons[0].click()
        self.assertIn("before training", self.browser.texts(".values")[0])
        buttons[1].click()
        self.assertIn("First: 0.25, –, -1", self.browser.texts(".values")[0])
        self.assertEqual(len(self.browser.find(".values .histogram rect")), 4)

    def test_about_names_what_is_bundled(self):
        self.open("training")
        self.browser.click("header button", "About")
        text = self.browser.texts("dialog")[0]
        for name in ("dagre", "graphlib", "lodash", "Chris Pettitt", "Permission is hereby granted"):
            self.assertIn(name, text)
        self.browser.keys(Keys.ESCAPE)
        self.browser.wait("!document.querySelector('dialog')")

    def test_a_damaged_page_says_so(self):
        page = pathlib.Path(self.pages.folder.name) / "damaged.html"
        text = self.pages.sample("flat", 50).read_text()
        at = text.index('octet-stream">') + 60
        page.write_text(text[:at] + "AAAA" + text[at + 4:])
        self.browser.driver.get(page.as_uri())
        self.browser.wait("document.querySelector('[role=alert]')")
        self.assertIn("cannot be shown", self.browser.texts("[role=alert]")[0])
        self.browser.console()  # clears the console, which has the same message


class DarkViews(PageCase):
    dark = True

    def contrast(self) -> list:
        """Returns texts whose contrast with their background is below 4.5 to 1 (WCAG 2.1, 1.4.3)."""
        return self.browser.run("""
            const channel = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
            const parts = (color) => { const c = document.createElement('canvas').getContext('2d'); c.fillStyle = color; c.fillRect(0, 0, 1, 1); return c.getImageData(0, 0, 1, 1).data; };
            const light = (color) => { const [r, g, b] = parts(color); return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b); };
            const behind = (at) => { for (; at; at = at.parentElement) { const color = getComputedStyle(at).backgroundColor; if (!/, 0\\)$|transparent/.test(color)) return color; } return 'white'; };
            const found = [];
            for (const at of document.querySelectorAll('body *')) {
              if (![...at.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()) || !at.getClientRects().length || at instanceof SVGElement) continue;
              const a = light(getComputedStyle(at).color), b = light(behind(at)), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
              if (ratio < 4.5) found.push([at.tagName, at.className, at.textContent.slice(0, 30), ratio]);
            }
            return found""")

    def test_texts_can_be_read_in_dark_and_light(self):
        self.open("training")
        for _ in range(2):
            for view in ("graph", "memory", "time", "training", "numerics", "model"):
                self.browser.tab(view)
                self.assertEqual(self.contrast(), [], view)
            self.browser.run("document.querySelector('header [aria-label^=Light]').click()")


class EveryControl(PageCase):
    def test_has_a_name(self):
        self.open("training")
        for view in ("graph", "memory", "time", "training", "numerics", "model"):
            self.browser.tab(view)
            nameless = self.browser.run("return [...document.querySelectorAll('button, input, select, canvas:not([aria-hidden]), svg[role=img]')].filter((at) => !(at.getAttribute('aria-label') || at.textContent.trim() || at.closest('label'))).map((at) => at.outerHTML.slice(0, 80))")
            self.assertEqual(nameless, [], view)


class PhoneViews(PageCase):
    """Tests a narrow screen: its content is readable, and tables scroll inside their own area."""
    width, height = 390, 844

    def test_labels_of_the_graph_are_drawn(self):
        self.open("training")
        self.browser.drawn()
        self.assertGreaterEqual(self.browser.run("return genesis.graph.view.camera.scale"), 0.55)
        first = self.browser.run("const {view} = genesis.graph, block = view.scene.blocks.reduce((high, one) => (one.y < high.y ? one : high)); return view.camera.toScreen(block.x + block.width / 2, block.y)")
        self.assertTrue(0 < first[0] < 390, first)

    def test_words_in_tables_are_whole(self):
        for sample, view in (("training", "time"), ("training", "model"), ("difference", "difference")):
            with self.subTest(view):
                self.open(sample)
                self.browser.tab(view)
                self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), 390)
                lines = self.browser.run("""
                    const lines = (cell) => { const range = document.createRange(); range.selectNodeContents(cell); return new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size; };
                    return Math.max(...[...document.querySelectorAll('.table td:not(.wide)')].filter((cell) => !/\\s/.test(cell.textContent.trim())).map(lines))""")
                self.assertLessEqual(lines, 2)  # a mark around a word has a top of its own
                tab = self.browser.run("const {left, right} = document.getElementById(arguments[0]).getBoundingClientRect(); return [left, right]", f"tab-{view}")
                self.assertTrue(0 <= tab[0] and tab[1] <= 390, tab)


if __name__ == "__main__":
    main()

"""Tests the graph in a real browser: hierarchy, search, keys, details, snapshots, hostile names."""
from page_case import Keys, PageCase, main


class Graph(PageCase):
    def shown(self) -> list[str]:
        """Returns the labels of the items on the canvas."""
        return self.browser.run("const pane = genesis.graph; return [...pane.scene.boxes, ...pane.scene.blocks].map((block) => pane.hierarchy.label(block.item))")

    def place(self, label: str) -> list[float]:
        """Returns the position of an item's center in the window."""
        return self.browser.run("""
            const pane = genesis.graph, item = [...pane.scene.place.keys()].find((one) => pane.hierarchy.label(one) === arguments[0]);
            const place = pane.scene.place.get(item), [x, y] = pane.view.camera.toScreen(place.x + place.width / 2, place.y + Math.min(place.height, 30) / 2);
            const box = pane.view.canvas.getBoundingClientRect(); return [x + box.left, y + box.top]""", label)

    def click_at(self, x: float, y: float, clicks: int = 1):
        for event in ("mousePressed", "mouseReleased"):
            for count in range(1, clicks + 1):
                self.browser.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": event, "x": x, "y": y, "button": "left", "clickCount": count})

    def title(self) -> str:
        return self.browser.texts(".details h2")[0]

    def test_repeated_layers_are_folded_with_their_count_and_open(self):
        self.open("training")
        folded = [label for label in self.shown() if label.startswith("layers.0 … layers.23")]
        self.assertEqual(len(folded), 2)  # the model's and its optimizer's; the gradient's order is reversed
        self.browser.run("return genesis.graph.toggle([...genesis.graph.scene.place.keys()].find((one) => genesis.graph.hierarchy.label(one) === arguments[0]))", folded[0])
        self.browser.wait("genesis.graph.scene.blocks.some((block) => genesis.graph.hierarchy.label(block.item) === 'layers.17')")
        self.browser.drawn()

    def test_a_click_shows_what_is_known_about_a_node(self):
        self.open("training")
        self.browser.drawn()
        self.click_at(*self.place("lm_head.linear"))
        self.assertEqual(self.title(), "linear")
        details = self.browser.texts(".details")[0]
        for word in ("lm_head.linear", "model.norm.rms_norm", "lm_head.weight", "f32[batch,seq,3584]", "has_addend", "gemm.blocked", "this CPU has no AMX", "GFLOP", "measured", "of the roofline"):
            self.assertIn(word, details)

    def test_inputs_and_consumers_lead_on(self):
        self.open("training")
        self.click_at(*self.place("lm_head.linear"))
        self.browser.click(".details button.link", "model.norm.rms_norm")
        self.browser.wait("document.querySelector('.details h2').textContent === 'rms_norm'")
        self.browser.run("document.querySelector('.details details').open = true")
        self.browser.click(".details button.link", "lm_head.linear")
        self.browser.wait("document.querySelector('.details h2').textContent === 'linear'")

    def test_all_that_leads_to_a_value_is_marked(self):
        self.open("training")
        self.click_at(*self.place("lm_head.linear"))
        self.browser.click(".details button", "All that leads here")
        forward = self.browser.run("return genesis.graph.view.overlay.found.length")
        self.assertGreater(forward, 24 * 10)
        self.assertIn(f"{forward} items marked", self.browser.texts(".details")[0])
        names = self.browser.run("return genesis.graph.view.overlay.found.filter((item) => genesis.graph.hierarchy.isNode(item)).map((item) => genesis.graph.hierarchy.graph.nodeName(item))")
        self.assertIn("model.layers.0.self_attn.attention", names)
        self.assertNotIn("cross_entropy", names)

    def test_what_is_shown_can_be_saved_as_a_picture(self):
        self.open("training")
        self.browser.drawn()
        self.browser.run("window.caught = null; URL.createObjectURL = (blob) => { window.caught = [blob.type, blob.size]; return 'blob:null/none'; }; HTMLAnchorElement.prototype.click = function () {}")
        self.browser.click(".toolbar button", "PNG")
        kind, size = self.browser.wait("window.caught")
        self.assertEqual(kind, "image/png")
        self.assertGreater(size, 10000)

    def test_search_by_name_op_type_and_expression(self):
        self.open("training")
        for query, count in (("layers.3.mlp.up_proj.linear", 2), ("attention causal", 0), ("rope_grad", 48), ("f32[batch,seq,3584] swiglu", 24), (r"/layers\.\d+\.mlp\.swiglu swiglu/", 24), ("/targets input/", 1)):
            self.browser.run("const box = genesis.graph.search; box.input.value = arguments[0]; box.run(true)", query)
            self.assertEqual(self.browser.run("return genesis.graph.search.items.length"), count, query)
        self.browser.run("const box = genesis.graph.search; box.input.value = '/(/'; box.run(true)")
        self.assertIn("Invalid regular expression", self.browser.texts(".search-status")[0])

    def test_keys(self):
        self.open("training")
        self.browser.keys("/", "swiglu_grad", Keys.ENTER)
        self.browser.wait("document.querySelector('.search-status').textContent === '1 of 24'")
        self.browser.wait("genesis.graph.selected >= 0 && document.querySelector('.details h2').textContent === 'swiglu_grad'")
        self.browser.run("document.activeElement.blur()")
        self.browser.keys("n", "n", "N")
        self.browser.wait("document.querySelector('.search-status').textContent === '2 of 24'")
        self.browser.run("genesis.graph.view.canvas.focus()")
        before = self.browser.run("return genesis.graph.selected")
        self.browser.keys(Keys.ARROW_UP)
        self.browser.wait(f"genesis.graph.selected !== {before}")
        self.browser.keys(Keys.ESCAPE)
        self.browser.wait("genesis.graph.selected === -1")

    def test_panning_and_zooming(self):
        self.open("training")
        self.browser.drawn()
        camera = lambda: self.browser.run("const {x, y, scale} = genesis.graph.view.camera; return [x, y, scale]")
        x, y, scale = camera()
        at = {"x": 500, "y": 400, "button": "left", "clickCount": 1, "buttons": 1}
        send = lambda kind, **more: self.browser.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, **at, **more})
        send("mousePressed"), send("mouseMoved", x=560, y=430), send("mouseReleased", x=560, y=430)
        self.assertEqual(camera(), [x + 60, y + 30, scale])
        send("mouseWheel", deltaX=0, deltaY=-240)
        self.browser.wait(f"genesis.graph.view.camera.scale > {scale * 1.2}")
        self.browser.drawn()

    def test_snapshots_show_what_a_pass_changed(self):
        self.open("training")
        self.browser.click(".snapshots button", "autodiff")
        self.browser.wait("document.querySelector('.snapshots [aria-selected=true]').textContent === 'autodiff'")
        details = self.browser.texts(".details")[0]
        self.assertIn("first, so that later passes also clean the gradient nodes", details)
        self.assertIn("with_log_sum_exp: false -> true", details)
        self.browser.wait("[...document.querySelectorAll('.choice option')].some((option) => option.value === 'change')")

    def test_colors(self):
        self.open("training")
        for mode in ("dtype", "bytes", "flops", "time", "roofline"):
            self.browser.run("const select = document.querySelector('select[aria-label=Color]'); select.value = arguments[0]; select.dispatchEvent(new Event('change'))", mode)
            self.assertEqual(self.browser.run("return genesis.graph.mode"), mode)
            self.assertGreater(len(self.browser.texts(".legend li")), 0)

    def test_the_tree_says_the_same_to_a_screen_reader(self):
        self.open("training")
        self.assertEqual(self.browser.run("return document.querySelector('[role=tree]').querySelectorAll('[tabindex=\"0\"]').length"), 1)
        self.browser.run("document.querySelector('[role=treeitem][tabindex=\"0\"]').focus()")
        self.browser.keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ENTER)
        self.browser.wait("document.activeElement.getAttribute('aria-level') === '2'")
        self.browser.wait("genesis.graph.selected >= 0")

    def test_hostile_names_do_nothing_but_show(self):
        self.open("hostile")
        self.browser.run("window.alert = () => { window.pwned = true }")
        self.browser.click("button", "Open more")
        self.browser.drawn()
        for node in range(12):
            self.browser.run("return genesis.graph.go(arguments[0])", node)
        for tab in self.browser.run("return genesis.views.map((view) => view.name)"):
            self.browser.tab(tab)
        self.browser.run("return genesis.graph.search.input.value = '<'")
        self.assertIsNone(self.browser.run("return window.pwned ?? null"))
        self.assertEqual(self.browser.run("return document.querySelectorAll('img, b > b, main script').length"), 0)


class GraphOnAPhone(PageCase):
    width, height, dark = 390, 844, True

    def test_it_fits_and_nothing_hangs_over(self):
        self.open("training")
        self.browser.drawn()
        self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), 390)
        self.assertGreater(self.browser.run("return document.querySelector('.graph-canvas').clientHeight"), 300)
        for sample in ("training", "difference", "ranks", "nonfinite"):
            self.open(sample)
            for tab in self.browser.run("return genesis.views.map((view) => view.name)"):
                self.browser.tab(tab)
                self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), 390, f"{sample}: {tab}")


if __name__ == "__main__":
    main()

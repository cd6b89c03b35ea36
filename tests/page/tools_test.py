"""Tests pages made by the tools themselves in a real browser: a model, a training step, a profile, two models, and a watched
run. GENESIS_TOOLS is the folder with the tools."""
import json
import os
import pathlib
import subprocess
import sys

from page_case import PageCase, kSkipped, main

TOOLS = pathlib.Path(os.environ.get("GENESIS_TOOLS", "."))


class ToolPages(PageCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = pathlib.Path(cls.pages.folder.name)
        cls.make("genesis-build", "qwen2", "--set", "hidden_size=64", "--set", "num_hidden_layers=4", "-o", "model.genesis", "--quiet")
        cls.make("genesis-opt", "model.genesis", "--train", "adamw,clip=1.0", "-o", "train.genesis", "--quiet")

    @classmethod
    def make(cls, tool: str, *arguments: str) -> str:
        done = subprocess.run([TOOLS / tool, *arguments], cwd=cls.folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(f"{tool} {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def tabs(self) -> list[str]:
        return self.browser.texts(".tabs [role=tab]")

    def test_a_training_step(self):
        self.make("genesis-viz", "train.genesis", "--size", "batch=4", "--size", "seq=64", "-o", "train.html")
        self.browser.open(self.folder / "train.html")
        self.assertEqual(self.tabs(), ["Graph", "Memory", "Weights"])
        self.assertEqual(self.browser.run("return genesis.currentEntry.name"), "train_step")
        self.browser.drawn()
        labels = self.browser.run("return genesis.graph.hierarchy.groups.filter((group) => group.repeats).map((group) => group.label)")
        self.assertIn("layers.0 … layers.3", labels)
        snapshots = self.browser.run("return genesis.currentEntry.snapshots.length")
        self.assertGreater(snapshots, 4)
        for snapshot in range(snapshots):
            self.browser.run("return genesis.graph.use(0, genesis.entry, arguments[0])", snapshot)
            self.browser.drawn()
        self.browser.run("const {graph} = genesis.graph.hierarchy; return genesis.graph.go([...Array(graph.size).keys()].find((node) => graph.op(node) === 'linear'))")
        self.assertIn("Kernel", self.browser.texts(".details h3"))
        self.browser.tab("memory")
        plan = self.browser.run("return genesis.currentEntry.plan")
        self.assertGreater(plan["arena_bytes"], 0)
        self.assertGreater(len(self.browser.find(".table tbody tr")), 3)
        self.assertGreater(len(self.browser.run("return genesis.currentEntry.budgets")), 1)

    def test_ranks_of_a_mesh(self):
        self.make("genesis-viz", "train.genesis", "--entry", "train_step", "--size", "batch=4", "--size", "seq=64", "--mesh", "data=2", "--zero", "1", "-o", "ranks.html")
        self.browser.open(self.folder / "ranks.html")
        self.browser.tab("memory")
        text = self.browser.texts(".ranks")[0]
        self.assertIn("Each of 2 ranks (data=2, zero 1)", text)
        self.assertRegex(text, r"each sends [\d.]+ [KM]iB along 'data', in \d+ exchange")
        self.assertEqual(len(self.browser.find(".ranks tbody tr")), 2)
        self.browser.tab("graph")
        self.browser.run("const select = genesis.graph; return select.use(0, genesis.entry, genesis.currentEntry.snapshots.length - 1)")
        ops = self.browser.run("const {graph} = genesis.graph.hierarchy; return [...Array(graph.size).keys()].map((node) => graph.op(node))")
        self.assertIn("reduce_scatter", ops)

    def test_the_first_value_that_is_not_finite(self):
        self.make("genesis-opt", "model.genesis", "--train", "sgd,lr=1e30", "-o", "hot.genesis", "--quiet")
        (self.folder / "text.txt").write_text("a text to learn from, and not much of it. " * 50)
        done = subprocess.run([TOOLS / "genesis-run", "train", "hot.genesis", "--data", "text.txt", "--seq", "16", "--batch", "2", "--quiet", "--find-nonfinite", "--nonfinite-page", "nan.html"],
                              cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.browser.open(self.folder / "nan.html")
        self.assertEqual(self.browser.run("return document.body.dataset.ready"), "numerics")
        self.assertIn("is the first to produce", self.browser.texts(".problem")[0])
        self.assertGreater(len(self.browser.find(".neighbors section")), 1)
        self.browser.click(".numerics button", "Show in the graph")
        self.browser.wait("document.body.dataset.ready === 'graph' && genesis.graph.selected >= 0")

    def test_two_models_measured_side_by_side(self):
        self.make("genesis-opt", "model.genesis", "--inference", "--cast", "bf16", "-o", "half.genesis", "--quiet")
        self.make("genesis-run", "profile", "model.genesis", "--entry", "forward", "--size", "batch=2", "--size", "seq=32", "--runs", "1", "--compare", "half.genesis", "-o", "both.html")
        self.browser.open(self.folder / "both.html")
        self.assertEqual(self.browser.run("return document.body.dataset.ready"), "difference")
        titles = " ".join(self.browser.texts(".difference h4"))
        for word in ("arena: ", "time: "):
            self.assertIn(word, titles)

    def test_values_of_weights(self):
        self.make("genesis-viz", "model.genesis", "--values", "--entry", "forward", "-o", "values.html")
        self.browser.open(self.folder / "values.html")
        self.browser.tab("model")
        self.browser.find(".model .table tbody td:first-child button")[0].click()
        self.assertGreater(len(self.browser.find(".values .histogram rect")), 10)

    def test_a_profile_has_times(self):
        self.make("genesis-run", "profile", "model.genesis", "--entry", "forward", "--size", "batch=2", "--size", "seq=32", "-o", "run.html")
        self.browser.open(self.folder / "run.html")
        self.assertIn("Time", self.tabs())
        self.browser.tab("time")
        self.browser.wait("document.querySelector('.block-canvas').dataset.drawn")
        self.assertIn("linear", self.browser.texts(".time td"))
        self.assertEqual(self.browser.texts(".columns th")[0], "thread 0")
        timeline = self.browser.run("return genesis.currentEntry.measured.timeline")
        self.assertEqual(set(timeline["spans"]["step"]), set(range(len(self.browser.run("return genesis.currentEntry.measured.steps.start_us")))))
        self.browser.click("button", "Show in the graph")
        self.browser.wait("document.body.dataset.ready === 'graph' && genesis.graph.mode === 'time'")

    def test_two_models(self):
        self.make("genesis-build", "qwen2", "--set", "hidden_size=64", "--set", "num_hidden_layers=5", "--seed", "3", "-o", "other.genesis", "--quiet")
        self.make("genesis-viz", "model.genesis", "--compare", "other.genesis", "-o", "diff.html")
        self.browser.open(self.folder / "diff.html")
        self.assertIn("Difference", self.tabs())
        self.browser.tab("difference")
        text = self.browser.texts(".difference")[0]
        for word in ("added", "other values", "model.layers.4.mlp"):
            self.assertIn(word, text)

    def test_a_run_is_watched_live(self):
        run = self.folder / "run"
        run.mkdir()
        rows = [json.dumps({"step": i, "loss": 5 - 0.1 * i}) + "\n" for i in range(40)]
        (run / "metrics.jsonl").write_text("".join(rows[:10]))
        server = subprocess.Popen([TOOLS / "genesis-viz", "watch", run], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            address = next(word for line in server.stdout for word in line.split() if word.startswith("http://127.0.0.1"))
            self.browser.driver.get(address)
            self.browser.wait("document.body.dataset.ready === 'training' && genesis.page.json.runs[0].rows === 10")
            with open(run / "metrics.jsonl", "a", encoding="utf-8") as file:
                file.write("".join(rows[10:]))
            self.browser.wait("genesis.page.json.runs[0].rows === 40")
            self.browser.wait("document.querySelector('.training [role=status]').textContent.startsWith('Live')")
            self.assertTrue(all(url.startswith(address.split("?")[0].rsplit("/", 1)[0]) for url in self.requests()))
        finally:
            server.terminate()
            server.wait()
            server.stdout.close()
            self.browser.driver.get("about:blank")
            self.requests()


if __name__ == "__main__":
    if not (TOOLS / "genesis-viz").exists():
        print("skipped: GENESIS_TOOLS names no folder with the tools")
        sys.exit(kSkipped)
    main()

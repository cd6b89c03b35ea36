"""Measures how fast a page opens and pans in the browser. Prints the results with the machine's load. The limits are loose on
a busy machine, and the sizes are exact."""
import gzip
import os

from page_case import PageCase, main

# Pans for a while and returns frames per second, computed from the browser's times between frames.
PAN = """
    const done = arguments[arguments.length - 1], view = genesis.graph.view, times = [];
    let turn = 0;
    const frame = (now) => {
      times.push(now);
      if (++turn > 150) return done([(times.length - 1) / (times[times.length - 1] - times[0]) * 1000]);
      view.camera.pan(turn % 100 < 50 ? -9 : 9, turn % 60 < 30 ? -5 : 5);
      view.draw();
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);"""


class Speed(PageCase):
    def slack(self) -> float:
        """Returns 1 on an idle machine, and more on a busy one."""
        return max(1.0, 1.5 * os.getloadavg()[0] / os.cpu_count())

    def measure(self, name: str, size: int, seconds: float):
        self.open("flat", 10)  # keeps the browser's own startup out of the measurement
        opened = self.open(name, size)
        self.browser.drawn()
        nodes = self.browser.run("return genesis.graph.hierarchy.graph.size")
        rates = []
        for zoom in ("begin", "fit"):
            self.browser.run(f"genesis.graph.view.{zoom}()")
            self.browser.drawn()
            rates.append(self.browser.driver.execute_async_script(PAN)[0])
        print(f"\n{name}: {nodes} nodes, opened in {opened:.2f} s, pans at {rates[0]:.0f} frames/s near and {rates[1]:.0f} far off, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        self.assertLess(opened, seconds * self.slack())
        self.assertGreater(min(rates), 50 / self.slack())

    def test_a_training_step_of_thousands_of_nodes(self):
        self.measure("deep", 80, 1)

    def test_a_hundred_thousand_nodes_without_scopes(self):
        self.measure("flat", 100000, 3)

    def test_the_page_is_small(self):
        page = self.pages.template.read_bytes()
        packed = len(gzip.compress(page, 9))
        print(f"\nthe page without data: {len(page)} bytes, {packed} compressed")
        self.assertLess(packed, 250 * 1024)

    def test_opening_every_scope_ends(self):
        self.open("deep", 80)
        for _ in range(4):
            self.browser.run("return genesis.graph.openMore()")
            self.browser.drawn()
        self.assertGreater(self.browser.run("return genesis.graph.scene.blocks.length"), 3000)


if __name__ == "__main__":
    main()

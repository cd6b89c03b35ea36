"""Records memory, clocks and power of the GPUs with nvidia-smi while something runs."""
import statistics
import subprocess
import threading

BUSY = 0.7  # fraction of the highest power seen: below it a GPU is starting up, or waits


class WatchedGpus:
    """`with WatchedGpus() as seen:`; after the block the methods report on its duration."""

    FIELDS = "index,memory.used,clocks.sm,power.draw.instant"

    def __enter__(self):
        self.rows = []  # GPU, MiB, MHz, W
        try:
            self.process = subprocess.Popen(["nvidia-smi", f"--query-gpu={self.FIELDS}", "--format=csv,noheader,nounits", "-lms", "50"],
                                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except OSError:
            self.process = None
            return self
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()
        return self

    def _read(self):
        for line in self.process.stdout:
            try:
                self.rows.append([float(field) for field in line.split(",")])
            except ValueError:
                pass  # a field that this driver does not have

    def __exit__(self, *_):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.thread.join()

    def most_bytes(self):
        """Returns the peak memory of any GPU, including contexts and other processes."""
        return int(max((row[1] for row in self.rows), default=0)) << 20

    def busy(self):
        """Returns for each GPU, while it is busy, its number, mean clock in MHz and mean power in W."""
        found = []
        for gpu in sorted({row[0] for row in self.rows}):
            of_gpu = [row for row in self.rows if row[0] == gpu]
            most = max(row[3] for row in of_gpu)
            of_gpu = [row for row in of_gpu if row[3] >= BUSY * most]
            found.append({"gpu": int(gpu), "mhz": statistics.mean(row[2] for row in of_gpu), "watts": statistics.mean(row[3] for row in of_gpu)})
        return found

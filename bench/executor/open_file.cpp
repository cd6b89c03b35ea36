// Measures opening a 2 GB file and running it for the first time: the time beyond reading the pages that the run touches, and the
// memory that becomes resident beyond these pages. `bench_open_file [--json FILE] [--folder DIR]`.
//
// The model has a 1.7 GB embedding, of which the run looks up 16 rows, and 80 dense layers that it reads completely. Two fresh
// processes are compared: one maps the file and only reads those bytes, the other opens and runs it. The memory that becomes
// resident in the first is the minimum that the run must touch: the system maps whole pages around a byte, up to 2 MiB.
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "bench/common/options.h"
#include "bench/common/report.h"
#include "bench/common/subject.h"
#include "builder/genesis.h"
#include "executor/session.h"
#include "schema/file/reader.h"
#include "schema/file/writer.h"

namespace genesis::bench {
namespace {

constexpr int64_t kRows = 409600, kHidden = 1024, kLayers = 80, kTokens = 16;

std::string layer_name(int64_t layer) { return fmt::format("layers.{}.weight", layer); }

// Returns zeroed pages, which take no memory until they are written.
Tensor zero_pages(const TensorType& type, std::byte** data) {
  const auto bytes = static_cast<size_t>(type.bytes());
  void* pages =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) fail("cannot map {} bytes", bytes);
  *data = static_cast<std::byte*>(pages);
  return {type, std::shared_ptr<const void>(pages, [bytes](void* p) { munmap(p, bytes); }), *data};
}

int32_t add_weight(Model& model, const std::string& name, int64_t rows, Tensor initial) {
  const TensorType type{DType::f32, {rows, kHidden}};
  return model.add_state(
      {.name = name, .type = type, .role = StateRole::kParameter, .trainable = true, .initial = initial});
}

void make_file(const std::string& path) {
  Model model;
  std::byte* data;
  add_weight(model, "embed", kRows, zero_pages({DType::f32, {kRows, kHidden}}, &data));
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const Tensor weight = zero_pages({DType::f32, {kHidden, kHidden}}, &data);
    // The values differ between layers: equal tensors would be stored once.
    for (int64_t i = 0; i < weight.numel(); ++i)
      reinterpret_cast<float*>(data)[i] = float((i * 31 + layer) % 1013 - 506) * 1e-4f;
    add_weight(model, layer_name(layer), kHidden, weight);
  }
  GraphBuilder g(model, "forward");
  Value x = embedding(g.input("tokens", DType::i64, {kTokens}), g.state("embed"));
  for (int64_t layer = 0; layer < kLayers; ++layer) x = linear(x, g.state(layer_name(layer)));
  g.output("y", x);
  save_model(model, path);
}

double needed_bytes() { return 4.0 * kHidden * (kLayers * kHidden + kTokens); }

int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

Tensor looked_up_rows() { return random_tokens({kTokens}, kRows, 3); }

// The result that a child process reports to its parent, on one line.
struct Opening {
  double seconds = 1e30, open_seconds = 0, second_run = 0;
  int64_t resident = 0;  // bytes
  float sum = 0;         // sum of the values read, so that the reads are not optimized away
};

void say_to_parent(const Opening& o) {
  fmt::print("{} {} {} {} {}\n", o.seconds, o.open_seconds, o.second_run, o.resident, o.sum);
}

Opening heard_from_child(const std::string& line) {
  Opening o;
  std::istringstream in(line);
  if (!(in >> o.seconds >> o.open_seconds >> o.second_run >> o.resident >> o.sum))
    fail("a child said '{}'", line);
  return o;
}

// Maps the file and reads only what the run will need: the lower bound.
void read_pages(const std::string& path) {
  const Tensor rows = looked_up_rows();
  const int64_t before = resident_bytes();
  const Stopwatch watch;
  const auto model = load_model(path);
  float sum = 0;
  for (const State& state : model->states()) {
    const auto values = state.initial.as<float>();
    if (state.name == "embed")
      for (const int64_t row : rows.as<int64_t>()) sum += values[static_cast<size_t>(row * kHidden)];
    else
      for (size_t i = 0; i < values.size(); i += 1024) sum += values[i];  // one value per page
  }
  const double seconds = watch.seconds();
  const int64_t resident = resident_bytes() - before;
  say_to_parent({.seconds = seconds, .resident = resident, .sum = sum});
}

void open_and_run(const std::string& path) {
  const NamedTensors inputs = {{"tokens", looked_up_rows()}};
  const int64_t before = resident_bytes();
  const Stopwatch watch;
  Session session(load_model(path));
  const double opened = watch.seconds();
  session.run("forward", inputs);
  const double seconds = watch.seconds();
  const int64_t resident = resident_bytes() - before;
  const Stopwatch again;
  session.run("forward", inputs);
  say_to_parent({seconds, opened, again.seconds(), resident});
}

// Runs this program again in child processes and returns the best result.
Opening best_of_children(const std::string& mode, const std::string& path) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  Opening best;
  for (int i = 0; i < 3; ++i) {
    FILE* child = popen(fmt::format("'{}' --child {} --file '{}'", self, mode, path).c_str(), "r");
    if (!child) fail("cannot start {}", self);
    char line[1024] = "";
    const bool answered = std::fgets(line, sizeof line, child) != nullptr;
    if (pclose(child) != 0 || !answered) fail("the child '{}' failed", mode);
    const Opening result = heard_from_child(line);
    if (result.seconds < best.seconds) best = result;
  }
  return best;
}

void run(const std::string& folder, const std::string& json_file) {
  const std::string path = folder + "/genesis-bench-2gb.genesis";
  const Stopwatch making;
  make_file(path);
  const auto file_bytes = static_cast<double>(std::filesystem::file_size(path));
  const double made = making.seconds();
  const Opening floor = best_of_children("read", path), run = best_of_children("run", path);
  std::filesystem::remove(path);
  const double beyond = run.seconds - floor.seconds, resident = double(run.resident),
               touched = double(floor.resident);
  fmt::print("a file of {:.2f} GB (made in {:.1f} s) whose first run needs {:.1f} MB of it\n",
             file_bytes * 1e-9, made, needed_bytes() * 1e-6);
  fmt::print("  open {:.4f} s, with the first run {:.4f} s; the second run {:.4f} s\n", run.open_seconds,
             run.seconds, run.second_run);
  fmt::print("  only reading those pages {:.4f} s: {:.4f} s beyond\n", floor.seconds, beyond);
  fmt::print(
      "  resident memory grew by {:.1f} MB; by {:.1f} MB in the process that only reads them: {:.3f}\n",
      resident * 1e-6, touched * 1e-6, resident / touched);
  write_report(json_file, {{"file_bytes", file_bytes},
                           {"needed_bytes", needed_bytes()},
                           {"open_seconds", run.open_seconds},
                           {"open_and_run_seconds", run.seconds},
                           {"read_seconds", floor.seconds},
                           {"seconds_beyond", beyond},
                           {"resident_bytes", resident},
                           {"touched_bytes", touched},
                           {"resident_ratio", resident / touched}});
}

}  // namespace
}  // namespace genesis::bench

int main(int argc, char** argv) {
  genesis::bench::Options options("Opening a file of 2 GB and running it for the first time.");
  std::string json_file, folder = std::filesystem::temp_directory_path(), child, file;
  options.json(json_file);
  options.text("--folder", folder, "where the file is made for the time of the bench");
  options.text("--child", child, "internal: read or run");
  options.text("--file", file, "internal: the file to open");
  options.parse(argc, argv);
  if (child == "read")
    genesis::bench::read_pages(file);
  else if (child == "run")
    genesis::bench::open_and_run(file);
  else
    genesis::bench::run(folder, json_file);
}

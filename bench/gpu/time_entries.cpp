// Times every entry point of a model in text form on one device, by the device's own clock: the Genesis side of bench/gpu/ops.py.
// Inputs are random: floats in [-1, 1), integers in [0, 1000), from repeated tiles of a million numbers.
//
//   bench_time_entries MODEL.txt --device cuda --json FILE
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include "bench/common/options.h"
#include "bench/common/report.h"
#include "executor/inspector.h"
#include "executor/session.h"
#include "schema/core/philox.h"
#include "schema/graph/text.h"

namespace genesis::bench {
namespace {

template <class T>
void fill(std::byte* to, int64_t n, DType dtype) {
  constexpr int64_t kTile = 1 << 20;
  std::vector<float> values(static_cast<size_t>(std::min(n, kTile)));
  is_float(dtype) ? fill_uniform(values, 1, 0, -1, 1)
                  : fill_uniform(values, 1, 0, 0, dtype == DType::boolean ? 2 : 1000);
  const auto bytes = static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < n; ++i) {
    if (i >= kTile) {
      std::memcpy(to + i * bytes, to, static_cast<size_t>(std::min(kTile, n - i) * bytes));
      i += kTile - 1;
      continue;
    }
    const float value = values[static_cast<size_t>(i)];
    reinterpret_cast<T*>(to)[i] = T(is_float(dtype) ? value : std::floor(value));
  }
}

Tensor random_tensor(const TensorType& type) {
  std::byte* data;
  Tensor tensor = Tensor::uninitialized(type, &data);
  dispatch(type.dtype, [&](auto tag) { fill<typename decltype(tag)::type>(data, type.numel(), type.dtype); });
  return tensor;
}

// Returns the median of several batches of runs, each long enough to be timed.
double median_seconds(Session& session, const std::string& entry, const NamedTensors& inputs) {
  const double once = Inspector(session).seconds_per_run(entry, inputs, 3);
  const int repeats = static_cast<int>(std::clamp(2e-3 / once, 3.0, 500.0));
  std::vector<double> times;
  for (int i = 0; i < 9; ++i) times.push_back(Inspector(session).seconds_per_run(entry, inputs, repeats));
  std::nth_element(times.begin(), times.begin() + 4, times.end());
  return times[4];
}

Report time_entry(const std::shared_ptr<const Model>& model, const std::string& entry,
                  const std::string& device) {
  try {
    Session session(model, {.device = device});
    NamedTensors inputs;
    const Graph& graph = model->entry(entry);
    for (const ValueId input : graph.inputs())
      inputs.emplace(graph.value(input).name, random_tensor(graph.type(input)));
    return {{"seconds", median_seconds(session, entry, inputs)}};
  } catch (const Error& error) {
    std::cerr << entry << ": " << error.message() << '\n';
    return {{"error", error.message()}};
  }
}

int run(int argc, char** argv) {
  Options options("Times every entry point of a model in text form.");
  std::string file, device = "cuda", json;
  options.argument("file", file, "a model in text form");
  options.text("--device", device, "where to run, cuda if not given");
  options.json(json);
  options.parse(argc, argv);
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  const std::shared_ptr<const Model> model = parse_text(text.str());
  Report report;
  for (const auto& entry : model->entries())
    report.add(entry->name(), time_entry(model, entry->name(), device));
  if (json.empty()) std::cout << report.pretty() << '\n';
  write_report(json, report);
  return 0;
}

}  // namespace
}  // namespace genesis::bench

int main(int argc, char** argv) {
  try {
    return genesis::bench::run(argc, argv);
  } catch (const genesis::Error& error) {
    std::cerr << "bench_time_entries: " << error.message() << '\n';
    return 1;
  }
}

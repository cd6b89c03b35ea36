#include "backends/cuda/gemm/lt/autotune.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <mutex>

#include "backends/cuda/gemm/gemm_plain.h"
#include "backends/cuda/gemm/lt/tuning_file.h"
#include "backends/cuda/runtime/cache_folder.h"
#include "backends/cuda/runtime/runtime.h"
#include "backends/cuda/runtime/stopwatch.h"

namespace genesis::cuda {
namespace {

constexpr int kGuesses = 32;
constexpr uint32_t kAlignment = 16;
constexpr auto kBudget = std::chrono::milliseconds(300);  // per problem, so that a cold start stays short

// Operands filled with noise: zeros would run faster than real data.
class Operands {
 public:
  // Returns null if memory is short.
  static std::unique_ptr<Operands> make(const GemmProblem& p) {
    auto made = std::make_unique<Operands>();
    const int64_t rows_a = p.transpose_a ? p.k : p.m, rows_b = p.transpose_b ? p.n : p.k;
    const bool enough = made->add(p.in, span_of(p.batch, p.stride_a, rows_a, p.lda)) &&
                        made->add(p.in, span_of(p.batch, p.stride_b, rows_b, p.ldb)) &&
                        made->add(p.out, span_of(p.batch, p.stride_c, p.m, p.ldc)) &&
                        made->add(p.in, std::max(p.m, p.n)) &&  // a bias, or sums of op(A)'s rows
                        made->add(DType::u8, kLtWorkspaceBytes);
    return enough ? std::move(made) : nullptr;
  }
  Operands() : stream_(make_stream()) {}
  ~Operands() { try_wait_for(stream_.get()); }

  GemmData data() const {
    return {.a = buffers_[0].get(),
            .b = buffers_[1].get(),
            .c = buffers_[2].get(),
            .bias = buffers_[3].get(),
            .workspace = buffers_[4].get(),
            .stream = stream_.get()};
  }

 private:
  static int64_t span_of(int64_t batch, int64_t stride, int64_t rows, int64_t ld) {
    return (batch - 1) * stride + rows * ld;
  }
  bool add(DType dtype, int64_t elements) {
    const int64_t bytes = elements * static_cast<int64_t>(size_of(dtype));
    auto memory = try_allocate(device_, std::max<int64_t>(bytes, 16));
    if (!memory) return false;
    if (is_float(dtype)) fill_with_noise(memory.get(), dtype, elements, stream_.get());
    buffers_.push_back(std::move(memory));
    return true;
  }

  int device_ = current_device();
  Stream stream_;
  std::vector<std::shared_ptr<std::byte>> buffers_;
};

struct Timed {
  LtAlgorithm algorithm;
  float ms = kNeverMs;
};

// Returns the fastest of the guesses that the time budget allows to measure.
Timed fastest_of(const std::vector<LtAlgorithm>& guesses, const LtProduct& product, const GemmData& data,
                 Stopwatch& stopwatch) {
  const auto until = std::chrono::steady_clock::now() + kBudget;
  Timed best{guesses.front()};
  for (size_t i = 0; i < guesses.size() && std::chrono::steady_clock::now() < until; ++i)
    if (const float ms = stopwatch.time([&] { return product.run(guesses[i], data); }, best.ms); ms < best.ms)
      best = {guesses[i], ms};
  return best;
}

LtAlgorithm fastest(const GemmProblem& problem, const LtProduct& product,
                    const std::vector<LtAlgorithm>& guesses) {
  if (guesses.size() == 1) return guesses.front();
  const auto operands = Operands::make(problem);
  if (!operands) return guesses.front();
  const GemmData data = operands->data();
  Stopwatch stopwatch(data.stream);
  return fastest_of(guesses, product, data, stopwatch).algorithm;
}

std::string words_only(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '-');
  return name;
}

// Returns the file of the chip and the library version.
TuningFile& tuning_file(const Chip& chip) {
  static std::map<std::string, TuningFile> files;
  const std::string name =
      fmt::format("products-{}-{}-{}.txt", words_only(chip.name), chip.multiprocessors, lt_version());
  const auto found = files.find(name);
  if (found != files.end()) return found->second;
  const auto folder = cache_folder();
  return files.emplace(name, TuningFile(folder ? std::optional(*folder / name) : std::nullopt)).first->second;
}

}  // namespace

std::string tuning_key(const GemmProblem& p) {
  return fmt::format("{}->{} {}x{}x{}x{}{}{} ld {},{},{} stride {},{},{} bias {} {} beta {}", name_of(p.in),
                     name_of(p.out), p.batch, p.m, p.n, p.k, p.transpose_a ? " ta" : "",
                     p.transpose_b ? " tb" : "", p.lda, p.ldb, p.ldc, p.stride_a, p.stride_b, p.stride_c,
                     p.has_bias ? 1 : 0, EnumNames<Activation>::names[static_cast<size_t>(p.activation)],
                     p.accumulate ? 1 : 0);
}

std::string to_text(const LtAlgorithm& algorithm) {
  std::string text = fmt::format("{:x}", algorithm.workspace);
  for (const uint64_t word : algorithm.algo.data) text += fmt::format(" {:x}", word);
  return text;
}

std::optional<LtAlgorithm> algorithm_from_text(const std::string& text) {
  const char *at = text.data(), *end = at + text.size();
  const auto number = [&](uint64_t& value) {
    const auto [after, error] = std::from_chars(at, end, value, 16);
    const bool read = error == std::errc() && (after == end || *after == ' ');
    at = after == end ? end : after + 1;
    return read;
  };
  LtAlgorithm algorithm;
  uint64_t workspace = 0;
  if (!number(workspace)) return std::nullopt;
  for (uint64_t& word : algorithm.algo.data)
    if (!number(word)) return std::nullopt;
  algorithm.workspace = workspace;
  return at == end ? std::optional(algorithm) : std::nullopt;
}

namespace {

std::mutex tuning;  // one at a time, so that measurements do not disturb each other

}  // namespace

std::optional<LtAlgorithm> best_algorithm(const GemmProblem& problem, const LtProduct& product) {
  const std::lock_guard lock(tuning);
  TuningFile& file = tuning_file(current_chip());
  const std::string key = tuning_key(problem);
  if (const auto kept = file.find(key))
    if (const auto algorithm = algorithm_from_text(*kept); algorithm && product.accepts(*algorithm))
      return algorithm;
  const std::vector<LtAlgorithm> guesses = product.guesses(kGuesses, kAlignment);
  if (guesses.empty()) return std::nullopt;
  const LtAlgorithm chosen = fastest(problem, product, guesses);
  file.add(key, to_text(chosen));
  return chosen;
}

std::optional<LtAlgorithm> best_with_sums(const GemmProblem& problem, const LtProduct& product,
                                          const std::function<void(const GemmData&)>& apart) {
  const std::lock_guard lock(tuning);
  constexpr const char* kApart = "apart";
  TuningFile& file = tuning_file(current_chip());
  const std::string key = tuning_key(problem) + " with sums of A";
  if (const auto kept = file.find(key)) {
    if (*kept == kApart) return std::nullopt;
    if (const auto algorithm = algorithm_from_text(*kept); algorithm && product.accepts(*algorithm))
      return algorithm;
  }
  const std::vector<LtAlgorithm> guesses = product.guesses(kGuesses, kAlignment);
  const auto operands = guesses.empty() ? nullptr : Operands::make(problem);
  if (!operands) return std::nullopt;
  const GemmData data = operands->data();
  Stopwatch stopwatch(data.stream);
  const Timed together = fastest_of(guesses, product, data, stopwatch);
  const float ms_apart = stopwatch.time([&] { return apart(data), true; }, kNeverMs);
  const bool pays = together.ms <= ms_apart && together.ms != kNeverMs;
  file.add(key, pays ? to_text(together.algorithm) : kApart);
  return pays ? std::optional(together.algorithm) : std::nullopt;
}

}  // namespace genesis::cuda

// Measures training a tokenizer on text, encoding text with it, and making token shards for training, in bytes of text per
// second. `bench_tokenizer [--text FILE] [--json FILE] [--folder DIR]`. bench/peers/tokenizers_library.py does the same with the
// library `tokenizers`, on the text that this program leaves in the folder.
//
// The default text: the headers in /usr/include, by name, at most 100 MB; every machine that builds this program has them.
#include <fmt/format.h>
#include <tbb/global_control.h>
#include <tbb/info.h>

#include <filesystem>
#include <fstream>

#include "bench/common/options.h"
#include "bench/common/report.h"
#include "bench/common/subject.h"
#include "models/data/token_corpus.h"
#include "models/tokenizer/tokenizer.h"
#include "models/tokenizer/training/train_tokenizer.h"
#include "schema/core/error.h"
#include "schema/file/format/utf8.h"
#include "schema/file/io/read_file.h"

namespace genesis::bench {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxText = 100'000'000;  // bytes
constexpr int64_t kTokens = 32000;

// Returns the default text, repaired to valid UTF-8, since the library reads only that.
std::string headers() {
  std::vector<fs::path> files;
  for (const auto& entry :
       fs::recursive_directory_iterator("/usr/include", fs::directory_options::skip_permission_denied))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::string text;
  for (const fs::path& file : files)
    if (text.size() < kMaxText) text += utf8::repaired(read_whole_file(file));
  if (text.size() > kMaxText) text.resize(text.rfind('\n', kMaxText) + 1);
  return text;
}

double megabytes_a_second(size_t bytes, double seconds) {
  return 1e-6 * static_cast<double>(bytes) / seconds;
}

struct Speeds {
  double training_seconds = 0, encoding = 0, shards = 0;  // the last two in MB/s
};

// Measures with as many threads as are currently allowed. Texts are encoded 1 MB at a time, like documents.
Speeds measure(const fs::path& file, const std::string& text, const fs::path& folder) {
  Speeds speeds;
  const Stopwatch training;
  const text::TrainedTokenizer trained = text::train_tokenizer(
      {file}, {.bpe = {.vocab_size = kTokens, .special_tokens = {"<|endoftext|>"}}, .pattern = "qwen2"});
  speeds.training_seconds = training.seconds();
  const text::Tokenizer tokenizer = text::Tokenizer::parse(trained.json);
  std::ofstream(folder / "tokenizer.json") << trained.json;
  const Stopwatch encoding;
  size_t tokens = 0;
  const size_t measured = std::min<size_t>(text.size(), 20'000'000);
  for (size_t at = 0; at < measured; at += 1'000'000)
    tokens += tokenizer.encode(std::string_view(text).substr(at, 1'000'000)).size();
  if (tokens == 0) fail("the text has no tokens");
  speeds.encoding = megabytes_a_second(measured, encoding.seconds());
  const fs::path cache = folder / "tokens";
  const Stopwatch making;
  data::open_token_corpus({file}, {tokenizer, trained.json, tokenizer.token_to_id("<|endoftext|>").value()},
                          {.cache = cache});
  speeds.shards = megabytes_a_second(text.size(), making.seconds());
  fs::remove_all(cache);
  return speeds;
}

Speeds measure_on(int threads, const fs::path& file, const std::string& text, const fs::path& folder) {
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(threads));
  const Speeds speeds = measure(file, text, folder);
  fmt::print(
      "  {} thread{}: {} tokens learnt in {:.2f} s, shards of tokens {:.1f} MB/s; encoding on one {:.1f} "
      "MB/s\n",
      threads, threads == 1 ? "" : "s", kTokens, speeds.training_seconds, speeds.shards, speeds.encoding);
  return speeds;
}

Report report_of(int threads, const Speeds& speeds) {
  return {{"threads", threads},
          {"training_seconds", speeds.training_seconds},
          {"shards_mb_per_second", speeds.shards},
          {"encode_mb_per_second", speeds.encoding}};
}

void run(const fs::path& folder, const std::string& given, const std::string& json_file) {
  fs::create_directories(folder);
  const std::string text = given.empty() ? headers() : read_whole_file(given);
  const fs::path file = folder / "text.txt";
  std::ofstream(file, std::ios::binary) << text;
  fmt::print("{:.1f} MB of {}, kept as {}\n", 1e-6 * static_cast<double>(text.size()),
             given.empty() ? "headers of /usr/include" : given, file.string());
  const int all = tbb::info::default_concurrency();
  const Speeds one = measure_on(1, file, text, folder);
  Report report = {
      {"bytes", text.size()}, {"one", report_of(1, one)}, {"encode_mb_per_second", one.encoding}};
  if (all > 1) report.add("all", report_of(all, measure_on(all, file, text, folder)));
  write_report(json_file, report);
}

}  // namespace
}  // namespace genesis::bench

int main(int argc, char** argv) {
  genesis::bench::Options options("A tokenizer at work: learnt from text, encoding it, making token shards.");
  std::string json_file, folder = std::filesystem::temp_directory_path() / "genesis-bench-tokenizer", text;
  options.json(json_file);
  options.text("--folder", folder, "where the text and the tokenizer are left");
  options.text("--text", text, "a text file in UTF-8");
  options.parse(argc, argv);
  genesis::bench::run(folder, text, json_file);
}

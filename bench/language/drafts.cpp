// Measures speculative decoding beside plain decoding of the same model, one text, greedy. `bench_drafts [--device cuda] [--shape 7b]
// [--json FILE]`. Weights are random, so that the text is of no meaning; the shapes are those of real models: with `--shape 7b` a
// Qwen2.5-7B with a Qwen2.5-0.5B that drafts, in bf16.
//
// Drafts are right by construction. The model that drafts does all its work, and its tokens are then replaced by those of the text
// that plain decoding wrote before: each is right with the probability --acceptance. N-grams draft what they find in the text:
// with a head that is the embedding and weights as small as these, the embedding of the last token decides which token is next, so
// that the text repeats this token. Texts with and without drafts are compared. They are equal, on a GPU too, because no two logits
// are close to each other.
#include <fmt/format.h>

#include <algorithm>

#include "bench/common/options.h"
#include "bench/common/report.h"
#include "executor/generation/model_drafter.h"
#include "models/generation/generator.h"
#include "models/zoo.h"

namespace genesis::bench {
namespace {

using generation::Drafter;
using generation::DraftRow;
using generation::Drafts;

struct Flags {
  std::string json, device = "cpu", shape = "small";
  int tokens = 128, rounds = 3, draft_tokens = 7;
  double acceptance = 0.9;
};

models::Settings settings_of(const std::string& shape, bool drafts) {
  const auto sizes = [](const char* hidden, const char* inner, const char* layers, const char* heads,
                        const char* key_heads, const char* vocabulary) {
    return models::Settings{{"hidden_size", hidden},
                            {"intermediate_size", inner},
                            {"num_hidden_layers", layers},
                            {"num_attention_heads", heads},
                            {"num_key_value_heads", key_heads},
                            {"vocab_size", vocabulary},
                            {"max_position_embeddings", "4096"},
                            {"cache_positions", "1024"},
                            {"dtype", "bf16"},
                            {"tie_word_embeddings", "true"},
                            {"initializer_range", "1e-5"},
                            {"rms_norm_eps", "1e-14"}};
  };
  if (shape == "7b")
    return drafts ? sizes("896", "4864", "24", "14", "2", "152064")
                  : sizes("3584", "18944", "28", "28", "4", "152064");
  return drafts ? sizes("256", "512", "2", "4", "2", "8192") : sizes("1024", "2816", "8", "16", "4", "8192");
}

std::shared_ptr<const Model> make(const std::string& shape, bool drafts) {
  return models::make_model("qwen2", settings_of(shape, drafts), drafts ? 2 : 1);
}

// Lets a model draft, and replaces its tokens by those of a text that is known.
class Replaced final : public Drafter {
 public:
  Replaced(std::shared_ptr<Drafter> model, std::vector<int64_t> text, double acceptance)
      : model_(std::move(model)), text_(std::move(text)), acceptance_(acceptance) {}

  Drafts draft(std::span<const DraftRow> rows) override {
    Drafts drafts = model_->draft(rows);
    for (size_t r = 0; r < rows.size(); ++r)
      for (size_t i = 0; i < drafts[r].size(); ++i)
        if (const size_t at = rows[r].text->size() + i; at < text_.size())
          drafts[r][i] = is_right() ? text_[at] : (text_[at] + 1) % 1000;
    return drafts;
  }

 private:
  bool is_right() {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<double>(state_ >> 40) / static_cast<double>(1 << 24) < acceptance_;
  }

  const std::shared_ptr<Drafter> model_;
  const std::vector<int64_t> text_;
  const double acceptance_;
  uint64_t state_ = 1;
};

std::vector<int64_t> prompt() {
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < 64; ++i) tokens.push_back((i * 37 + 11) % 1000);
  return tokens;
}

// Returns the result of the fastest round.
text::GenerateResult fastest(Session& session, const text::GeneratorOptions& options, const Flags& flags) {
  text::Generator generator(session, options);
  text::GenerateResult best;
  for (int round = 0; round <= flags.rounds; ++round) {
    generator.rewind(0);
    auto result = generator.continue_with(prompt(), {.max_tokens = flags.tokens, .temperature = 0});
    if (round == 1 || result.decode_seconds < best.decode_seconds) best = std::move(result);  // 0 compiles
  }
  return best;
}

double rate(const text::GenerateResult& result) {
  return static_cast<double>(result.decoded) / result.decode_seconds;
}

Report reported(const std::string& name, const text::GenerateResult& result,
                const text::GenerateResult& plain) {
  const double steps = static_cast<double>(result.tokens.size()) / static_cast<double>(result.steps);
  const auto same = std::ranges::mismatch(result.tokens, plain.tokens).in1 - result.tokens.begin();
  fmt::print(
      "  {:8} {:8.1f} tokens/s, {:.2f} times plain; {:.2f} tokens a step, {} of {} accepted; {} of {} tokens "
      "equal\n",
      name, rate(result), rate(result) / rate(plain), steps, result.accepted, result.drafted, same,
      plain.tokens.size());
  return {{"tokens_per_second", rate(result)},
          {"ratio", rate(result) / rate(plain)},
          {"tokens_per_step", steps},
          {"equal_tokens", same}};
}

void run(const Flags& flags) {
  const SessionOptions options = {.device = flags.device};
  const auto model = make(flags.shape, false), small = make(flags.shape, true);
  Session session = text::open_for_generation(model, options, true);
  const text::GenerateResult plain = fastest(session, {}, flags);
  fmt::print("qwen2 of shape {} in bf16 on {}, one text of {} tokens, greedy, drafts of up to {}\n",
             flags.shape, flags.device, flags.tokens, flags.draft_tokens);
  fmt::print("  plain    {:8.1f} tokens/s\n", rate(plain));
  text::GeneratorOptions ngrams = {.draft_tokens = flags.draft_tokens}, drafts = ngrams;
  ngrams.drafter = [](const CacheSize&) { return generation::make_ngram_drafter(); };
  std::vector<int64_t> text = prompt();
  text.insert(text.end(), plain.tokens.begin(), plain.tokens.end());
  drafts.drafter = [&](const CacheSize&) {
    return std::make_shared<Replaced>(
        generation::make_model_drafter(text::open_for_generation(small, options), 4096), text,
        flags.acceptance);
  };
  Report report = {{"plain_tokens_per_second", rate(plain)}};
  report.add("ngram", reported("ngram", fastest(session, ngrams, flags), plain));
  report.add("model", reported("model", fastest(session, drafts, flags), plain));
  write_report(flags.json, report);
}

}  // namespace
}  // namespace genesis::bench

int main(int argc, char** argv) {
  genesis::bench::Options options("Speculative decoding beside plain decoding.");
  genesis::bench::Flags flags;
  options.json(flags.json);
  options.text("--device", flags.device, "cpu, cuda or cuda:N");
  options.text("--shape", flags.shape, "small, or 7b with a model of 0.5B that drafts");
  options.rounds(flags.rounds, "texts of each kind; the fastest counts");
  options.number("--tokens", flags.tokens, "tokens of a text", 2, 900);
  options.number("--draft-tokens", flags.draft_tokens, "tokens of a draft at most", 1, 15);
  options.number("--acceptance", flags.acceptance, "probability that a drafted token of the model is right");
  options.parse(argc, argv);
  genesis::bench::run(flags);
}

#include "models/formats/gguf/pre_tokenizers.h"

#include <map>

namespace genesis::models::gguf {
namespace {

using text::Pattern;

constexpr const char* kContractions = R"((?i:'s|'t|'re|'ve|'m|'ll|'d))";
constexpr const char* kSpaces = R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Returns a pattern of regular expressions, each of which splits the words of the previous one.
Pattern expressions(const std::vector<std::string>& each) {
  std::vector<text::PreTokenizerStep> steps;
  for (const std::string& expression : each) steps.push_back(text::split_step(expression));
  return text::pattern_of(std::move(steps));
}

// Returns an expression for runs of punctuation and ASCII symbols. `more` are symbols that only some models include.
std::string punctuation(const std::string& more) { return R"([\p{P}\$\+<=>\^~\|)" + more + "]+"; }

// Returns a variant of the expression of Llama 3: words, numbers, symbols with the line ends behind them, spaces.
std::string words(const std::string& letters, const std::string& number, const std::string& signs) {
  return std::string(kContractions) + R"(|[^\r\n\p{L}\p{N}]?)" + letters + "+|" + number + "| ?" + signs +
         kSpaces;
}

// Returns an expression that also splits words where an upper-case letter follows a lower-case one. `behind` is appended to each
// word: contractions, or nothing.
std::string cased_words(const std::string& behind, const std::string& number) {
  const std::string upper = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])", lower = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])",
                    sign = R"([^\r\n\p{L}\p{N}]?)";
  return sign + upper + "*" + lower + "+" + behind + "|" + sign + upper + "+" + lower + "*" + behind + "|" +
         number + R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*)" + kSpaces;
}

// Scripts with upper and lower case, as DeepSeek LLM lists them.
// clang-format off
constexpr const char* kCasedScripts =
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"
    "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5"
    "\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba"
    "\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45"
    "\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe"
    "\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc"
    "\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
    "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3"
    "\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06"
    "\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
    "\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df"
    "\U0001e900-\U0001e943";
// clang-format on

constexpr const char* kChineseAndKorean = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+";
// Words of BLOOM and later models of its kind.
constexpr const char* kNotPunctuation = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+";

Pattern deepseek_llm() {
  // The fourth expression matches white space at the end of its input. The original has `\s+$`, which means the same here, since
  // the first step splits off each line end.
  return expressions({R"([\r\n])", R"(\s?[)" + std::string(kCasedScripts) + "]+",
                      "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", R"(\s+(?!\s|\S))",
                      kChineseAndKorean, R"(\p{N}+)"});
}

Pattern deepseek_coder() {
  Pattern pattern = expressions({R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kChineseAndKorean});
  pattern.steps.insert(pattern.steps.end() - 1, text::digits_step(true));
  return pattern;
}

Pattern deepseek_v3() {
  return expressions(
      {R"(\p{N}{1,3})", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
       R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
       R"(| ?[\p{P}\p{S}]+[\r\n]*)" +
           std::string(kSpaces)});
}

using Table = std::map<std::string, PreTokenizer>;

void add(Table& table, std::initializer_list<const char*> names, const PreTokenizer& one) {
  for (const char* name : names) table.emplace(name, one);
}

Table make_table() {
  const std::string threes = R"(\p{N}{1,3})", one = R"(\p{N})", gpt2(text::kGpt2Pattern);
  const Pattern llama3 = text::pattern_named("llama3");
  Pattern qwen2 = text::pattern_named("qwen2"),
          qwen35 = expressions({words(R"([\p{L}\p{M}])", one, R"([^\s\p{L}\p{M}\p{N}]+[\r\n]*)")});
  qwen35.normalizes = true;
  Table table;
  add(table,
      {"gpt-2", "phi-2", "gigachat", "a.x-4.0", "mellum", "mpt", "olmo", "jais", "trillion",
       "granite-docling", "exaone4"},
      {text::pattern_named("gpt2")});
  add(table, {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"},
      {text::pattern_named("smollm")});
  add(table, {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"},
      {.pattern = llama3, .whole_words_first = true, .begins_text = true});
  add(table, {"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"}, {llama3});
  add(table, {"qwen2", "deepseek-r1-qwen"}, {qwen2});
  qwen2.normalizes = false;
  add(table, {"kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan", "solar-open", "grok-2"}, {qwen2});
  add(table, {"qwen35"}, {qwen35});
  add(table, {"seed-coder"}, {expressions({words(R"(\p{L})", one, R"([^\s\p{L}\p{N}\r\n]+)")})});
  add(table, {"minicpm5"},
      {.pattern = expressions({threes, words(R"(\p{L})", R"(\p{N}+)", R"([^\s\p{L}\p{N}]+[\r\n]*)")}),
       .whole_words_first = true});
  add(table, {"tekken"},
      {.pattern = expressions({cased_words("", one)}), .whole_words_first = true, .begins_text = true});
  add(table, {"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"},
      {expressions({cased_words(std::string(kContractions) + "?", threes)})});
  add(table, {"deepseek-llm"}, {deepseek_llm()});
  add(table, {"deepseek-coder"}, {deepseek_coder()});
  add(table, {"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"}, {deepseek_v3()});
  add(table, {"poro-chat", "bloom", "gpt3-finnish"}, {expressions({kNotPunctuation})});
  add(table, {"viking"}, {expressions({kNotPunctuation, one})});
  add(table, {"falcon"}, {expressions({punctuation("`"), gpt2, "[0-9][0-9][0-9]"})});
  add(table, {"default"}, {expressions({punctuation(""), gpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"})});
  return table;
}

const Table& table() {
  static const Table made = make_table();
  return made;
}

}  // namespace

const PreTokenizer* find_pre_tokenizer(const std::string& name) {
  const auto found = table().find(name);
  return found == table().end() ? nullptr : &found->second;
}

std::vector<std::string> pre_tokenizer_names() {
  std::vector<std::string> names;
  for (const auto& [name, pre_tokenizer] : table()) names.push_back(name);
  return names;
}

}  // namespace genesis::models::gguf

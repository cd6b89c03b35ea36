// Tests templates of folders, and conversations as samples: which tokens are learned.
#include "models/chat/conversation.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "models/chat/generation_config.h"
#include "models/chat/jinja/values/json_value.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"
#include "tests/error_of.h"
#include "tests/schema/file_models.h"

namespace genesis::chat {
namespace {

using namespace testing;
using jinja::Value;

const std::string kTests = GENESIS_SOURCE_ROOT "/tests/models/";

nlohmann::ordered_json stored(const char* file) {
  return parse_ordered_json_text(read_whole_file(kTests + "chat/" + file));
}

std::string source_of(const char* name) { return stored("templates.json")["templates"][name]; }

text::Tokenizer tokenizer() { return text::Tokenizer::load(kTests + "tokenizer/qwen.json"); }

SampleMaker maker(const std::string& source, const char* eos = "<|endoftext|>") {
  return {ChatTemplate::parse(source, {{"eos_token", eos}}), tokenizer()};
}

void write(const std::filesystem::path& path, const std::string& text) { std::ofstream(path) << text; }

// Returns the learned text, with | where it is interrupted.
std::string learnt(const Sample& sample) {
  std::string text;
  const text::Tokenizer by = tokenizer();
  std::vector<int64_t> run;
  for (size_t i = 0; i <= sample.tokens.size(); ++i) {
    if (i < sample.tokens.size() && sample.is_target[i]) {
      run.push_back(sample.tokens[i]);
    } else if (!run.empty()) {
      text += by.decode(run, false) + "|";
      run.clear();
    }
  }
  return text;
}

const char* const kTalk = R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "a"},
  {"role": "assistant", "content": "one"}, {"role": "user", "content": "b"}, {"role": "assistant", "content": "two"}])";

TEST(SampleMaker, LearnsWhatTransformersMarks) {
  const SampleMaker marked = maker(source_of("marked"));
  for (const auto& one : stored("masks.json")) {
    const Sample sample = marked.of_messages(parse_messages(one["messages"].dump())).at(0);
    EXPECT_EQ(std::vector<int64_t>(sample.tokens.begin(), sample.tokens.end()),
              one["ids"].get<std::vector<int64_t>>())
        << one["messages"];
    EXPECT_EQ(std::vector<int>(sample.is_target.begin(), sample.is_target.end()),
              one["mask"].get<std::vector<int>>())
        << one["messages"];
  }
}

TEST(SampleMaker, FindsAnswersByPrefixes) {
  const Sample sample = maker(
                            "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + "
                            "'<|im_end|>\n' }}{% endfor %}"
                            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
                            .of_messages(parse_messages(kTalk))
                            .at(0);
  EXPECT_EQ(learnt(sample),
            "one<|im_end|>\n|two<|im_end|>\n|");  // <|im_end|> is not a special token of this tokenizer
  const Sample ended =
      maker(
          "{% for m in messages %}{{ m.role + ':\n' + m.content + '<|endoftext|>\n' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ 'assistant:\n' }}{% endif %}")
          .of_messages(parse_messages(kTalk))
          .at(0);
  EXPECT_EQ(learnt(ended), "one<|endoftext|>|two<|endoftext|>|");
}

// Qwen2.5's template looks at the first message and puts a system message before it.
TEST(SampleMaker, AConversationMayBeginWithAnAnswer) {
  const std::string begin =
      "{% if messages[0].role != 'system' %}{{ '<|im_start|>system\nBe.<|im_end|>\n' }}{% endif %}"
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}";
  const std::string prompt = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
  const auto talk = parse_messages(
      R"([{"role": "assistant", "content": "one"}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "two"}])");
  EXPECT_EQ(learnt(maker(begin + prompt).of_messages(talk).at(0)), "one<|im_end|>\n|two<|im_end|>\n|");
  EXPECT_NE(error_of([&] { maker(begin).of_messages(talk); }).find("begins with a message of the assistant"),
            std::string::npos);
}

// Follows the format of OpenAI's files. Both algorithms that find answers support it.
TEST(SampleMaker, AnAnswerOfNoWeightIsReadAndNotLearnt) {
  const auto talk = [](const char* first, const char* second) {
    return parse_messages(fmt::format(R"([{{"role": "user", "content": "a"}}, {{"role": "assistant", "content": "one"{}}},
      {{"role": "user", "content": "b", "weight": 0}}, {{"role": "assistant", "content": "two"{}}}])",
                                      first, second));
  };
  const char* const kNo = R"(, "weight": 0)";
  for (const char* answer : {"{{ m.content }}", "{% generation %}{{ m.content }}{% endgeneration %}"}) {
    const SampleMaker any = maker(
        fmt::format("{{% for m in messages %}}{{{{ m.role + ':' }}}}{{% if m.role == 'assistant' %}}{}"
                    "{{% else %}}{{{{ m.content }}}}{{% endif %}}{{% endfor %}}"
                    "{{% if add_generation_prompt %}}assistant:{{% endif %}}",
                    answer));
    EXPECT_EQ(learnt(any.of_messages(talk("", R"(, "weight": 1)")).at(0)), "one|two|");
    EXPECT_EQ(learnt(any.of_messages(talk(kNo, "")).at(0)), "two|");
    EXPECT_EQ(learnt(any.of_messages(talk(R"(, "weight": null)", kNo)).at(0)), "one|");
    EXPECT_NE(error_of([&] { any.of_messages(talk(kNo, kNo)); }).find("'weight' of 0"), std::string::npos);
    EXPECT_NE(error_of([&] { any.of_messages(talk("", R"(, "weight": 0.5)")); }).find("message 3 is neither 0 nor 1"),
              std::string::npos);
  }
  const SampleMaker halves = maker(
      "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}");
  EXPECT_NE(error_of([&] { halves.of_messages(talk(kNo, "")); }).find("marks 4 texts of 2 answers"), std::string::npos);
}

TEST(SampleMaker, TemplatesSeeWhatComesWithTheMessages) {
  const SampleMaker with_tools = maker(
      "{% for t in tools or [] %}{{ t.name }} {% endfor %}{% for m in messages %}{{ m.role + ':' + m.content }}{% endfor %}"
      "{% if add_generation_prompt %}assistant:{% endif %}");
  jinja::Dict variables;
  variables.set("tools", jinja::parse_json(R"([{"name": "look"}])"));
  const auto text = [](const Sample& sample) {
    return tokenizer().decode(std::vector<int64_t>(sample.tokens.begin(), sample.tokens.end()), false);
  };
  EXPECT_TRUE(text(with_tools.of_messages(parse_messages(kTalk), variables).at(0)).starts_with("look system:"));
  EXPECT_TRUE(text(with_tools.of_messages(parse_messages(kTalk)).at(0)).starts_with("system:"));
}

using Ids = std::vector<int64_t>;

// Returns how many samples begin with `prompt` and `answer` and learn all of the answer. Also counts the targets
// found in this way.
int times_learnt(const std::vector<Sample>& samples, const Ids& prompt, const Ids& answer) {
  int times = 0;
  for (const Sample& sample : samples) {
    Ids text = prompt;
    text.insert(text.end(), answer.begin(), answer.end());
    if (sample.tokens.size() < text.size() || !std::equal(text.begin(), text.end(), sample.tokens.begin()))
      continue;
    const auto first = sample.is_target.begin() + std::ssize(prompt);
    if (std::all_of(first, first + std::ssize(answer), [](bool is_target) { return is_target; })) ++times;
  }
  return times;
}

// Each answer is learned once, after the text that transformers lets a model read before it writes that answer.
// Nothing else is learned.
TEST(SampleMaker, LearnsEachAnswerBehindWhatIsReadBeforeIt) {
  for (const auto& one : stored("turns.json")) {
    SCOPED_TRACE(one["template"].dump() + one["messages"].dump());
    const auto samples = maker(source_of(one["template"].get<std::string>().c_str()))
                             .of_messages(parse_messages(one["messages"].dump()));
    size_t learnt = 0, answers = 0;
    for (const auto& turn : one["turns"]) {
      const Ids answer = turn["answer"];
      answers += answer.size();
      EXPECT_EQ(times_learnt(samples, turn["prompt"], answer), 1) << turn["answer"];
    }
    for (const Sample& sample : samples)
      learnt += static_cast<size_t>(std::count(sample.is_target.begin(), sample.is_target.end(), true));
    EXPECT_EQ(learnt, answers);
  }
}

std::vector<std::string> all_learnt(const std::vector<Sample>& samples) {
  std::vector<std::string> texts;
  for (const Sample& sample : samples) texts.push_back(learnt(sample));
  return texts;
}

// Thoughts are learned although later turns do not contain them. Answers with a tool call between them share a
// sample.
TEST(SampleMaker, AnswersThatLaterTurnsRewriteHaveSamplesOfTheirOwn) {
  const SampleMaker thinking = maker(source_of("thinking"));
  using Texts = std::vector<std::string>;
  EXPECT_EQ(all_learnt(thinking.of_messages(parse_messages(kTalk))),
            (Texts{"<think>\n\n</think>\n\none<|im_end|>\n|", "<think>\n\n</think>\n\ntwo<|im_end|>\n|"}));
  EXPECT_EQ(
      all_learnt(thinking.of_messages(parse_messages(
          R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "<think>\nx\n</think>\n\nb"},
              {"role": "tool", "content": "t"}, {"role": "assistant", "content": "<think>\ny\n</think>\n\nc"},
              {"role": "user", "content": "d"}, {"role": "assistant", "content": "e"}])"))),
      (Texts{"<think>\nx\n</think>\n\nb<|im_end|>\n|<think>\ny\n</think>\n\nc<|im_end|>\n|",
             "<think>\n\n</think>\n\ne<|im_end|>\n|"}));
}

// axolotl writes "train": false for a weight of 0.
TEST(SampleMaker, AnAnswerWithTrainFalseIsReadAndNotLearnt) {
  const SampleMaker any = maker(
      "{% for m in messages %}{{ m.role + ':' + m.content }}{% endfor %}{% if add_generation_prompt "
      "%}assistant:{% "
      "endif %}");
  const auto learnt_of = [&](const char* first, const char* second) {
    return learnt(any.of_messages(jinja::parse_json(fmt::format(
                                      R"([{{"role": "user", "content": "a", "train": false}},
      {{"role": "assistant", "content": "one"{}}}, {{"role": "user", "content": "b"}}, {{"role": "assistant", "content": "two"{}}}])",
                                      first, second)))
                      .at(0));
  };
  EXPECT_EQ(learnt_of(R"(, "train": false)", ""), "two|");
  EXPECT_EQ(learnt_of(R"(, "train": true)", R"(, "train": null)"), "one|two|");
  EXPECT_EQ(learnt_of(R"(, "train": true, "weight": 0)", ""), "two|");
  EXPECT_EQ(learnt_of(R"(, "train": false, "weight": 1)", ""), "two|");
  EXPECT_NE(error_of([&] { learnt_of(R"(, "train": "no")", ""); }).find("'train' of message 1"),
            std::string::npos);
  EXPECT_NE(error_of([&] { learnt_of(R"(, "train": false)", R"(, "train": false)"); }).find("'train' false"),
            std::string::npos);
}

// Follows transformers 5.24: keys without a value are left out, and thoughts are available under all their names.
TEST(ChatTemplate, PassesMessagesOnAsTransformersDoes) {
  const auto render = [](const std::string& source, const std::string& message) {
    return ChatTemplate::parse(source).render(parse_messages("[" + message + "]")).text;
  };
  const std::string call =
      R"({"role": "assistant", "content": null, "tool_calls": [{"function": {"arguments": null}}]})";
  EXPECT_EQ(
      render("[{{ messages[0].content }}]{{ messages[0].content is defined }}{{ messages[0]|length }}", call),
      "[]False2");
  EXPECT_EQ(render("{{ messages[0].tool_calls[0] }}", call), "{'function': {'arguments': None}}");
  EXPECT_EQ(render("{{ messages[0].tool_calls is defined }}",
                   R"({"role": "user", "content": "a", "tool_calls": null})"),
            "False");
  const std::string all =
      "{% set m = messages[0] %}{{ m.thinking }}|{{ m.reasoning_content }}|{{ m.reasoning }}";
  for (const char* name : {"thinking", "reasoning_content", "reasoning"})
    EXPECT_EQ(render(all, fmt::format(R"({{"role": "assistant", "content": "a", "{}": "why"}})", name)),
              "why|why|why");
  EXPECT_EQ(
      render(all, R"({"role": "assistant", "content": "a", "thinking": "x", "reasoning_content": null})"),
      "x|x|x");
  EXPECT_EQ(
      render(all, R"({"role": "assistant", "content": "a", "thinking": "x", "reasoning_content": "y"})"),
      "x|y|y");
  EXPECT_EQ(render(all, R"({"role": "assistant", "content": "a"})"), "||");
}

TEST(SampleMaker, LearnsThoughtsUnderAnyName) {
  const SampleMaker any = maker(
      "{% for m in messages %}{{ m.role + ':' }}{% if m.thinking %}({{ m.thinking }}){% endif %}{{ m.content "
      "}}{% endfor %}"
      "{% if add_generation_prompt %}assistant:{% endif %}");
  EXPECT_EQ(learnt(any.of_messages(jinja::parse_json(R"([{"role": "user", "content": "a"},
      {"role": "assistant", "content": "b", "reasoning_content": "why"}])"))
                       .at(0)),
            "(why)b|");
}

// Rendering up to each answer takes quadratic time in the length of a conversation.
TEST(SampleMaker, RefusesConversationsThatTakeTooLong) {
  std::vector<Value> talk;
  for (int i = 0; i < 20'000; ++i) talk.push_back(make_message(i % 2 == 0 ? "user" : "assistant", "a"));
  const auto error = [&](const char* answer) {
    const SampleMaker any = maker(fmt::format(
        "{{% for m in messages %}}{}{{% endfor %}}{{% if add_generation_prompt %}}b{{% endif %}}", answer));
    return error_of([&] { any.of_messages(Value::list(talk)); });
  };
  EXPECT_NE(error("{{ m.content }}").find("generation %}"), std::string::npos);
  EXPECT_EQ(error("{% if m.role == 'user' %}a{% else %}{% generation %}a{% endgeneration %}{% endif %}"), "");
}

TEST(SampleMaker, RefusesTemplatesThatHideWhatIsSaid) {
  const auto error = [](const std::string& source) {
    return error_of([&] { maker(source).of_messages(parse_messages(kTalk)); });
  };
  EXPECT_NE(error("{{ messages|length }}").find("generation"), std::string::npos);
  // Two answers in a row: the first loses its empty thought once the second is there.
  EXPECT_NE(
      error_of([&] {
        maker(source_of("thinking"))
            .of_messages(parse_messages(
                R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "assistant", "content": "c"}])"));
      }).find("message 2"),
      std::string::npos);
  EXPECT_NE(error("{% set x %}{% generation %}a{% endgeneration %}{% endset %}{{ x }}").find("macro"),
            std::string::npos);
}

TEST(SampleMaker, RefusesWhatIsNoConversation) {
  const SampleMaker any = maker(source_of("marked"));
  const auto error = [&](const char* json) {
    return error_of([&] { any.of_messages(jinja::parse_json(json)); });
  };
  EXPECT_NE(error(R"([{"role": "user", "content": "a"}])").find("assistant"), std::string::npos);
  EXPECT_NE(error(R"([{"role": "user", "content": "a"}, {"content": "b"}])").find("message 1"),
            std::string::npos);
  EXPECT_NE(error(R"([{"role": "user"}])").find("content"), std::string::npos);
  EXPECT_NE(error(R"([3])").find("message 0"), std::string::npos);
  EXPECT_NE(error(R"({})").find("list"), std::string::npos);
  EXPECT_NE(error(R"([])").find("assistant"), std::string::npos);
}

TEST(SampleMaker, TextEndsWithTheEndOfText) {
  const Sample sample = maker(source_of("marked")).of_text("In the beginning");
  EXPECT_EQ(learnt(sample), "In the beginning<|endoftext|>|");
  EXPECT_EQ(learnt(maker(source_of("marked"), "").of_text("In the beginning")), "In the beginning|");
}

TEST(TokenSpans, CoverTheText) {
  const text::Tokenizer by = tokenizer();
  for (const std::string text :
       {"", "a", "In the beginning \xe4\xb8\x96\xe7\x95\x8c \xf0\x9f\x8e\x89\n\n<|im_start|>x",
        "\xc3\xa9 \xc4\xa0the"}) {
    const std::vector<int64_t> ids = by.encode(text, false);
    const auto spans = token_spans(by, text, ids);
    ASSERT_EQ(spans.size(), ids.size());
    EXPECT_EQ(spans.empty() ? 0 : spans.back().end, text.size());
  }
  EXPECT_THROW(token_spans(by, "e\xcc\x81", by.encode("e\xcc\x81", false)),
               Error);  // NFC composes it to one character
}

TEST(ChatTemplate, IsFoundInAFolder) {
  const TemporaryFolder folder;
  const auto render = [&] { return ChatTemplate::load(folder.path()).render(parse_messages(kTalk)).text; };
  EXPECT_NE(error_of(render).find("no chat template"), std::string::npos);
  write(
      folder / "tokenizer_config.json",
      R"({"bos_token": null, "eos_token": {"content": "</s>"}, "chat_template": "A{{ eos_token }}{{ bos_token is defined }}"})");
  EXPECT_EQ(render(), "A</s>False");
  write(
      folder / "tokenizer_config.json",
      R"({"eos_token": "E", "chat_template": [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D{{ eos_token }}"}]})");
  EXPECT_EQ(render(), "DE");
  write(folder / "chat_template.jinja", "J{{ eos_token }}\n");
  EXPECT_EQ(render(), "JE");
  EXPECT_EQ(ChatTemplate::load(folder / "chat_template.jinja").render(parse_messages(kTalk)).text, "JE");
  write(folder / "chat_template.jinja", "\n{{ nothing.here }}");
  EXPECT_NE(error_of(render).find("line 2"), std::string::npos);
  write(folder / "chat_template.jinja", "{% oops %}");
  EXPECT_NE(error_of(render).find("chat_template.jinja"), std::string::npos);
  std::filesystem::remove(folder / "chat_template.jinja");
  for (const char* config :
       {"[]", "{", R"({"chat_template": 3})", R"({"chat_template": [{"name": "x", "template": "y"}]})",
        R"({"chat_template": [1]})"}) {
    write(folder / "tokenizer_config.json", config);
    EXPECT_NE(error_of(render).find("tokenizer_config.json"), std::string::npos)
        << config << error_of(render);
  }
  EXPECT_NE(error_of([&] { ChatTemplate::load(folder / "missing.jinja"); }).find("missing.jinja"),
            std::string::npos);
}

TEST(GenerationConfig, IsReadAsTransformersReadsIt) {
  const TemporaryFolder folder;
  const text::GenerateOptions none =
      read_generation_config(ConfigFiles::in_folder(folder.path()), {.temperature = 0.5});
  EXPECT_EQ(none.temperature, 0.5);
  write(folder / "config.json", R"({"eos_token_id": 9, "temperature": 9})");
  write(
      folder / "generation_config.json",
      R"({"do_sample": true, "temperature": 0.6, "top_p": 0.95, "eos_token_id": [5, 7], "repetition_penalty": 1.1})");
  const text::GenerateOptions options = read_generation_config(ConfigFiles::in_folder(folder.path()), {});
  EXPECT_EQ(options.temperature, 0.6);
  EXPECT_EQ(options.top_k, 50);
  EXPECT_EQ(options.top_p, 0.95);
  EXPECT_EQ(options.repetition_penalty, 1.1);
  EXPECT_EQ(options.stop_tokens, (std::vector<int64_t>{5, 7}));
  write(folder / "generation_config.json", R"({"temperature": 0.6})");
  EXPECT_EQ(read_generation_config(ConfigFiles::in_folder(folder.path()), {}).temperature, 0);
  EXPECT_EQ(read_generation_config(ConfigFiles::in_folder(folder.path()), {}).stop_tokens,
            (std::vector<int64_t>{9}));
  write(folder / "generation_config.json", R"({"do_sample": true, "temperature": "hot"})");
  EXPECT_NE(error_of([&] {
              read_generation_config(ConfigFiles::in_folder(folder.path()), {});
            }).find("generation_config.json"),
            std::string::npos);
  write(folder / "generation_config.json", R"({"eos_token_id": [-1]})");
  EXPECT_THROW(read_generation_config(ConfigFiles::in_folder(folder.path()), {}), Error);
  write(folder / "generation_config.json", R"({"stop_strings": ["###", "\n\n"]})");
  EXPECT_EQ(read_generation_config(ConfigFiles::in_folder(folder.path()), {}).stop_strings,
            (std::vector<std::string>{"###", "\n\n"}));
  write(folder / "generation_config.json", R"({"stop_strings": [3]})");
  EXPECT_THROW(read_generation_config(ConfigFiles::in_folder(folder.path()), {}), Error);
}

}  // namespace
}  // namespace genesis::chat

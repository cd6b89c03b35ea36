// genesis-run chat: a conversation with a language model.
#include <fmt/ranges.h>
#include <unistd.h>

#include <iostream>

#include "models/chat/dialogue.h"
#include "models/chat/generation_config.h"
#include "models/chat/jinja/values/json_value.h"
#include "models/text/sampling_entries.h"
#include "models/text/vocabulary.h"
#include "models/zoo.h"
#include "schema/file/io/atomic_write.h"
#include "schema/messages/log.h"
#include "tools/checks/replaced_files.h"
#include "tools/common/line_input.h"
#include "tools/common/numbers.h"
#include "tools/common/open_model.h"
#include "tools/common/printable.h"
#include "tools/common/ranks.h"
#include "tools/common/sampling_flags.h"
#include "tools/run/nonfinite_page.h"
#include "tools/run/run_commands.h"
#include "tools/text/answer_json.h"
#include "tools/text/load_tokenizer.h"
#include "tools/text/text_codec.h"
#include "tools/text/text_writer.h"

namespace genesis::tools {
namespace {

constexpr const char* kHelp =
    "/reset        begin a new conversation, with the same system prompt\n"
    "/save FILE    write the conversation as a line of JSON, as `genesis-run train` reads it\n"
    "/help         this list\n"
    "/exit         leave; so do Ctrl-D, and Ctrl-C at an empty prompt, twice\n"
    "Ctrl-C stops an answer. A message that begins with / is written with //.\n";

struct Flags {
  std::string file, tokenizer, chat_template, system, variables, mesh;
  text::GenerateOptions options = {.max_tokens = 1024};
  int64_t prefill_chunk = 512, context = 0;
  RunFlags run;
  Output out;
};

nlohmann::ordered_json as_json(const chat::Dialogue::Answer& answer, bool interrupted) {
  const text::GenerateResult& result = answer.result;
  return {{"text", result.text},
          {"stop", interrupted ? "interrupted" : name_of(result.stop_reason)},
          {"tokens", result.tokens},
          {"prompt_tokens", answer.prompt_tokens},
          {"reused_tokens", answer.reused_tokens},
          {"compile_seconds", result.compile_seconds},
          {"prefill_seconds", result.prefill_seconds},
          {"decode_seconds", result.decode_seconds},
          {"decode_tokens_per_second", per_second(result.decoded, result.decode_seconds)}};
}

// Reads lines and answers them until the input ends. All ranks answer what rank 0 reads.
class ChatLoop {
 public:
  ChatLoop(chat::Dialogue& dialogue, const Session& session, const Flags& flags, World& world)
      : dialogue_(dialogue),
        session_(session),
        flags_(flags),
        world_(world),
        is_terminal_(isatty(STDIN_FILENO) && isatty(STDERR_FILENO)) {}

  // Whether every line of a pipe could be answered.
  bool run() {
    if (is_terminal_) std::cerr << "/help lists the commands\n";
    for (std::string line; !done_;) {
      if (is_terminal_ && !waits_) std::cerr << "> " << std::flush;
      switch (next(line)) {
        case LineInput::Event::kWaiting:
          break;
        case LineInput::Event::kEnd:
          done_ = true;
          break;
        case LineInput::Event::kInterrupt:
          at_prompt_interrupted();
          break;
        case LineInput::Event::kLine:
          take(line);
          break;
      }
    }
    // The input ends, too, where the launcher has lost a rank that had come here: it is missing where all meet once more.
    said_by_first(world_, "");
    if (is_terminal_) std::cerr << "\n";
    return failures_ == 0 || is_terminal_;
  }

 private:
  // What rank 0 waits for can take long: the others hear from it meanwhile.
  LineInput::Event next(std::string& line) {
    std::string said;
    if (world_.is_first()) {
      const LineInput::Event event = input_.next(interrupts_, line, world_.size() > 1);
      said = std::to_string(static_cast<int>(event)) + line;
    }
    said = said_by_first(world_, said);
    line = said.substr(1);
    const auto event = static_cast<LineInput::Event>(said[0] - '0');
    waits_ = event == LineInput::Event::kWaiting;
    return event;
  }

  // Asked now and then where others have to answer too.
  bool is_interrupted() {
    constexpr int kPieces = 8;
    if (world_.size() > 1 && ++pieces_ % kPieces != 0) return false;
    return agreed_by_first(world_, interrupts_.count() > 0);
  }

  void at_prompt_interrupted() {
    if (agreed_by_first(world_, interrupts_.count() > 1)) throw ExitCode(128 + SIGINT);
    std::cerr << "\nCtrl-C again leaves\n";
  }

  void take(const std::string& line) {
    interrupts_.reset();
    try {
      with_nonfinite_page(flags_.run, flags_.file, session_, [&] { answer_or_do(line); });
    } catch (const Error& error) {
      ++failures_;
      std::cerr << "genesis-run: " << error_line(error.message()) << "\n";
    }
  }

  void answer_or_do(const std::string& line) {
    if (line.empty()) return;
    if (line[0] != '/') return answer(line);
    if (line.starts_with("//")) return answer(line.substr(1));
    command(line);
  }

  void answer(const std::string& message) {
    TextWriter writer;
    bool interrupted = false;
    pieces_ = 0;
    const auto answer = dialogue_.reply(message, [&](const text::Piece& piece) {
      if (!flags_.out.json) writer.write(piece.text);
      return !(interrupted = is_interrupted());
    });
    if (flags_.out.json)
      flags_.out.print(as_json(answer, interrupted), [] {});
    else
      writer.write("\n");
    if (answer.result.stop_reason == text::StopReason::kCacheFull)
      std::cerr << "the context is full: /reset begins a new conversation\n";
  }

  void command(const std::string& line) {
    const size_t space = line.find(' ');
    const std::string name = line.substr(0, space),
                      rest = space == std::string::npos ? "" : line.substr(space + 1);
    if (name == "/reset") return dialogue_.reset();
    if (name == "/help") return void(std::cerr << kHelp);
    if (name == "/exit") return void(done_ = true);
    if (name != "/save")
      fail("there is no command {}: /help lists them, and // begins a message with /", shortened(name));
    if (rest.empty()) fail("/save needs the name of a file");
    if (world_.is_first()) check_replaces_conversation("/save", rest);
    if (world_.is_first()) write_file_atomically(rest, chat::messages_line(dialogue_.messages()) + "\n");
    std::cerr << "saved " << printable(rest) << "\n";
  }

  chat::Dialogue& dialogue_;
  const Session& session_;
  const Flags& flags_;
  World& world_;
  const bool is_terminal_;
  bool waits_ = false;  // for the rest of a line
  int pieces_ = 0;      // of this answer
  LineInput input_;
  InterruptCount interrupts_;
  bool done_ = false;
  int failures_ = 0;
};

chat::ChatTemplate load_template(const Flags& flags, const chat::ConfigFiles& files) {
  if (!flags.chat_template.empty()) return chat::ChatTemplate::load(flags.chat_template);
  return with_context([&] { return chat::ChatTemplate::from(files); },
                      [] { return "--template names another"; });
}

void add_stop_token(text::GenerateOptions& options, int64_t token) {
  auto& tokens = options.stop_tokens;
  if (std::ranges::find(tokens, token) == tokens.end()) tokens.push_back(token);
}

text::GenerateOptions generate_options(const Flags& flags, const Command& app, const TextCodec& codec,
                                       const chat::ConfigFiles& files, int64_t vocabulary) {
  text::GenerateOptions options = chat::read_generation_config(files, flags.options);
  for (const std::string& warning : chat::generation_warnings(files, vocabulary)) log_warning("{}", warning);
  take_given_sampling(app, flags.options, options);
  check_sampling(app, options);
  for (const int64_t end : codec.end_tokens()) add_stop_token(options, end);
  return options;
}

// An end of turn that only the template knows ends an answer too.
void add_end_of_turn(const chat::ChatTemplate& chat, const text::Tokenizer& tokenizer,
                     text::GenerateOptions& options) {
  if (const auto end = tokenizer.token_to_id(chat.special_token("eos_token"))) add_stop_token(options, *end);
}

jinja::Dict variables_of(const Flags& flags) {
  if (flags.variables.empty()) return {};
  const jinja::Value value =
      with_context([&] { return jinja::parse_json(flags.variables); }, [] { return "in --variables"; });
  if (!value.dict()) fail("--variables: expected a JSON object, got {}", type_name(value));
  return *value.dict();
}

// The session and its generator; a longer conversation gets others with a longer KV cache, which read it anew.
class GrowingContext {
 public:
  GrowingContext(std::shared_ptr<const Model> model, SessionOptions options,
                 text::GeneratorOptions generating)
      : model_(std::move(model)), options_(std::move(options)), generating_(std::move(generating)) {
    open(model_);
  }
  const Session& session() const { return *session_; }
  text::Generator& generator() { return *generator_; }

  text::Generator& make_room(int64_t tokens) {
    const std::shared_ptr<const Model> larger = models::with_room(model_, tokens);
    if (larger == model_) return *generator_;
    try {
      open(larger);
      model_ = larger;
    } catch (const Error&) {
      open(model_);
      throw;
    }
    std::cerr << fmt::format("the context is {} tokens long now\n", generator_->capacity());
    return *generator_;
  }

 private:
  // What was there goes first: two of them may be more than the device has.
  void open(const std::shared_ptr<const Model>& model) {
    generator_.reset();
    session_.reset();
    session_.emplace(text::open_for_generation(model, options_));
    generator_.emplace(*session_, generating_);
  }

  std::shared_ptr<const Model> model_;
  const SessionOptions options_;
  const text::GeneratorOptions generating_;
  std::optional<Session> session_;
  std::optional<text::Generator> generator_;
};

// With the context that was asked for.
std::shared_ptr<const Model> chat_model(const Flags& flags, World& world) {
  const std::shared_ptr<const Model> model = load_model(model_file_of_first(world, flags.file));
  if (flags.context == 0) return model;
  return models::with_cache(*model, text::rows_of_cache(*model), flags.context);
}

void chat_command(const Flags& flags, const Command& app, const std::shared_ptr<World>& world) {
  const FirstRankSpeaks quiet(*world);
  check_prefill_chunk(flags.prefill_chunk);
  const std::shared_ptr<const Model> model = chat_model(flags, *world);
  const chat::ConfigFiles files = config_files(flags.tokenizer, *model, flags.file);
  const TextCodec codec(*model, flags.file, flags.tokenizer);
  if (!codec.tokenizer())
    fail("{} brings no tokenizer: name the folder that it came from with --tokenizer", flags.file);
  const text::Tokenizer& tokenizer = *codec.tokenizer();
  const chat::ChatTemplate chat = load_template(flags, files);
  chat::DialogueOptions options = {
      flags.system, variables_of(flags),
      generate_options(flags, app, codec, files, text::vocabulary_of(model->entry("decode"), 2))};
  add_end_of_turn(chat, tokenizer, options.generate);
  GrowingContext context(model, session_options(flags.run, world),
                         {.text = codec.token_text(), .prefill_chunk = flags.prefill_chunk});
  if (flags.context == 0)
    options.make_room = [&](int64_t tokens) -> text::Generator& { return context.make_room(tokens); };
  chat::Dialogue dialogue(chat, tokenizer, context.generator(), std::move(options));
  if (!ChatLoop(dialogue, context.session(), flags, *world).run()) throw ExitCode(1);
}

}  // namespace

void add_chat(Command& app) {
  auto flags = std::make_shared<Flags>();
  Command* command = app.add_subcommand("chat", "talk with a language model");
  command->add_option("file", flags->file, kGeneratingModelName)->required();
  command->add_option(
      "--tokenizer", flags->tokenizer,
      "a model, or a folder with tokenizer.json, tokenizer_config.json with the chat template and "
      "generation_config.json with the makers' settings; without, those that the file brings");
  command->add_option("--template", flags->chat_template, "another chat template: a file .jinja");
  command->add_option("--variables", flags->variables,
                      "a JSON object that the template sees: {\"enable_thinking\": false}");
  command->add_option("--system", flags->system, "what the model is told ahead of the conversation");
  add_number(*command, "--max-tokens", flags->options.max_tokens, "tokens of an answer at most",
             at_least<int64_t>(1));
  add_sampling(*command, flags->options);
  add_prefill_chunk(*command, flags->prefill_chunk);
  add_context(*command, flags->context);
  add_mesh(*command, flags->mesh);
  flags->run.add_to(*command);
  command->add_flag("--json", flags->out.json, "print one JSON object on stdout for each answer");
  command->footer(
      std::string("Each line of stdin is a message, or a command:\n") + kHelp +
      "Example:\n  genesis-run chat qwen.genesis --tokenizer Qwen2.5-0.5B-Instruct --system \"Be brief.\"");
  command->callback([flags, command] {
    const std::shared_ptr<World> world = join_ranks(flags->mesh, flags->run.device, SharedWork::kLayers);
    as_rank(*world, [&] { chat_command(*flags, *command, world); });
  });
}

}  // namespace genesis::tools

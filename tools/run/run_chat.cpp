// genesis-run chat: a conversation with a language model.
#include <fmt/core.h>

#include <iostream>

#include "models/chat/dialogue.h"
#include "models/chat/generation_config.h"
#include "models/chat/jinja/values/json_value.h"
#include "models/generation/sampling_entries.h"
#include "models/generation/vocabulary.h"
#include "models/zoo.h"
#include "schema/messages/log.h"
#include "tools/chat/banner.h"
#include "tools/chat/chat_loop.h"
#include "tools/checks/cache_room.h"
#include "tools/common/numbers.h"
#include "tools/common/option_values.h"
#include "tools/common/printable.h"
#include "tools/common/ranks.h"
#include "tools/common/sampling_flags.h"
#include "tools/run/nonfinite_page.h"
#include "tools/run/run_commands.h"
#include "models/text/load_tokenizer.h"
#include "models/text/text_codec.h"

namespace genesis::tools {
namespace {

struct ChatFlags {
  std::string file, tokenizer, chat_template, system, variables, mesh;
  text::GenerateOptions options = {.max_tokens = 1024};
  int64_t prefill_chunk = 512, context = 0;
  bool quiet = false;
  RunFlags run;
  Output out;
};

std::string template_place(const ChatFlags& flags, const chat::ConfigFiles& files) {
  if (!flags.chat_template.empty()) return flags.chat_template;
  return files.where(files.find("chat_template.jinja") ? "chat_template.jinja" : "tokenizer_config.json");
}

chat::ChatTemplate load_template(const ChatFlags& flags, const chat::ConfigFiles& files) {
  if (!flags.chat_template.empty()) return chat::ChatTemplate::load(flags.chat_template);
  return with_context([&] { return chat::ChatTemplate::from(files); },
                      [] { return "--template names another"; });
}

void add_stop_token(text::GenerateOptions& options, int64_t token) {
  auto& tokens = options.stop_tokens;
  if (std::ranges::find(tokens, token) == tokens.end()) tokens.push_back(token);
}

text::GenerateOptions generate_options(const ChatFlags& flags, const Command& app, const text::TextCodec& codec,
                                       const chat::ConfigFiles& files, int64_t vocabulary) {
  text::GenerateOptions options = chat::read_generation_config(files, flags.options);
  for (const std::string& warning : chat::generation_warnings(files, vocabulary)) log_warning("{}", warning);
  take_given_sampling(app, flags.options, options);
  check_sampling(app, flags.options);
  warn_of_greedy_settings(app, options, files.where("generation_config.json"));
  for (const int64_t end : codec.end_tokens()) add_stop_token(options, end);
  return options;
}

// Adds the end of a turn to the stop tokens. Some models name it only in the chat template's settings.
void add_end_of_turn(const chat::ChatTemplate& chat, const text::Tokenizer& tokenizer,
                     text::GenerateOptions& options) {
  if (const auto end = tokenizer.token_to_id(chat.special_token("eos_token"))) add_stop_token(options, *end);
}

jinja::Dict variables_of(const ChatFlags& flags) {
  if (flags.variables.empty()) return {};
  const jinja::Value value = read_value("--variables", [&] { return jinja::parse_json(flags.variables); });
  if (!value.dict()) fail_usage("--variables: expected a JSON object, got {}", type_name(value));
  return *value.dict();
}

// Owns the session and its generator. When a conversation outgrows the KV cache, it makes new ones with a longer
// cache, and the conversation is prefilled again.
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
  // Frees the old session first: the device may not have memory for two.
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

// Loads the model with the context length of --context.
std::shared_ptr<const Model> chat_model(const ChatFlags& flags, World& world) {
  const std::shared_ptr<const Model> model = load_model(model_file(flags.file, world));
  if (flags.context == 0) return model;
  auto larger =
      with_context([&] { return models::with_cache(*model, text::rows_of_cache(*model), flags.context); },
                   [&] { return fmt::format("with --context {} for {}", flags.context, flags.file); });
  check_cache_fits(*larger, flags.run.device, fmt::format("--context {}", flags.context));
  return larger;
}

std::string banner(const ChatFlags& flags, const Model& model, const chat::Dialogue& dialogue,
                   int64_t positions, const std::string& template_place, const SettingSources& sources) {
  const int64_t longest = flags.context == 0 ? models::longest_text(model) : 0;
  std::string system = dialogue.system();
  if (!system.empty()) system = "\nsystem    " + printable(shortened(system));
  return fmt::format("model     {}\ntemplate  {}\ncontext   {}\nsampling  {}{}",
                     model_text(model, flags.file), printable(template_place),
                     context_text(positions, longest), sampling_text(dialogue.generate_options(), sources),
                     system);
}

ChatLoopOptions loop_options(const ChatFlags& flags, const GrowingContext& context) {
  return {.out = flags.out, .is_quiet = flags.quiet, .around_answer = [&](const std::function<void()>& work) {
            with_nonfinite_page(flags.run, flags.file, context.session(), work);
          }};
}

void chat_command(const ChatFlags& flags, const Command& app, const std::shared_ptr<World>& world) {
  const FirstRankSpeaks quiet(*world);
  check_prefill_chunk(flags.prefill_chunk);
  const jinja::Dict variables = variables_of(flags);
  const std::shared_ptr<const Model> model = chat_model(flags, *world);
  const chat::ConfigFiles files = text::config_files(flags.tokenizer, *model, flags.file);
  const text::TextCodec codec(*model, flags.file, flags.tokenizer);
  if (!codec.tokenizer())
    fail("{} brings no tokenizer: name the folder that it came from with --tokenizer", flags.file);
  const text::Tokenizer& tokenizer = *codec.tokenizer();
  const chat::ChatTemplate chat = load_template(flags, files);
  chat::DialogueOptions options = {
      flags.system, variables,
      generate_options(flags, app, codec, files, text::vocabulary_of(model->entry("decode"), 2))};
  add_end_of_turn(chat, tokenizer, options.generate);
  GrowingContext context(model, session_options(flags.run, world),
                         {.text = codec.token_text(), .prefill_chunk = flags.prefill_chunk});
  if (flags.context == 0)
    options.make_room = [&](int64_t tokens) -> text::Generator& { return context.make_room(tokens); };
  chat::Dialogue dialogue(chat, tokenizer, context.generator(), std::move(options));
  ChatLoopOptions looping = loop_options(flags, context);
  looping.sources =
      setting_sources(app, chat::sampling_origin(files).value_or("defaults of this tool"));
  looping.banner = banner(flags, *model, dialogue, context.generator().capacity(),
                          template_place(flags, files), looping.sources);
  if (!ChatLoop(dialogue, *world, std::move(looping)).run()) throw ExitCode(1);
}

}  // namespace

void add_chat(Command& app) {
  auto flags = std::make_shared<ChatFlags>();
  Command* command = app.add_subcommand("chat", "talk with a language model");
  command->add_option("file", flags->file, kGeneratingModelName)->required();
  command->add_option(
      "--tokenizer", flags->tokenizer,
      "a model, or a folder with tokenizer.json, tokenizer_config.json with the chat template and "
      "generation_config.json with the makers' settings; default: those in the file");
  command->add_option("--template", flags->chat_template, "another chat template: a file .jinja");
  command->add_option("--variables", flags->variables,
                      "a JSON object that the template sees: {\"enable_thinking\": false}");
  command->add_option("--system", flags->system, "instructions for the model, ahead of the conversation");
  add_number(*command, "--max-tokens", flags->options.max_tokens, "tokens of an answer at most",
             at_least<int64_t>(1));
  add_sampling(*command, flags->options);
  add_prefill_chunk(*command, flags->prefill_chunk);
  add_context(*command, flags->context);
  add_mesh(*command, flags->mesh);
  flags->run.add_to(*command);
  command->add_flag("--json", flags->out.json, "print one JSON object on stdout for each answer");
  command->add_flag(
      "--quiet", flags->quiet,
      "print nothing about the model first and nothing about tokens after an answer, even on a terminal");
  command->footer(
      "Each line of stdin is a message, or a command:\n" + chat_help() +
      "Example:\n  genesis-run chat qwen.genesis --tokenizer Qwen2.5-0.5B-Instruct --system \"Be brief.\"");
  command->callback([flags, command] {
    const std::shared_ptr<World> world = join_ranks(flags->mesh, flags->run.device, SharedWork::kLayers);
    as_rank(*world, [&] { chat_command(*flags, *command, world); });
  });
}

}  // namespace genesis::tools

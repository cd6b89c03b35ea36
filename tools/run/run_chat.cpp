// genesis-run chat: a conversation with a language model.
#include <iostream>

#include "models/chat/dialogue.h"
#include "models/chat/generation_config.h"
#include "models/text/text_model.h"
#include "models/zoo.h"
#include "tools/chat/banner.h"
#include "tools/chat/chat_loop.h"
#include "tools/common/model_name.h"
#include "tools/common/numbers.h"
#include "tools/common/printable.h"
#include "tools/common/ranks.h"
#include "tools/run/nonfinite_page.h"
#include "tools/run/run_commands.h"
#include "tools/text/sampling_flags.h"

namespace genesis::tools {
namespace {

struct ChatFlags {
  std::string file, hub_name, mesh;
  text::TextOptions text;
  text::ChatOptions chat;
  text::GenerateOptions options = {.max_tokens = 1024};
  std::vector<std::string> logit_bias;
  bool quiet = false;
  RunFlags run;
  Output out;
};

std::string banner(const ChatFlags& flags, text::TextModel& model, text::Chat& chat,
                   const SettingSources& sources) {
  const int64_t longest = flags.text.context == 0 ? models::longest_text(model.model()) : 0;
  std::string system = chat.dialogue().system();
  if (!system.empty()) system = "\nsystem    " + printable(shortened(system));
  return fmt::format("model     {}\ntemplate  {}\ncontext   {}\nsampling  {}{}",
                     model_text(model.model(), flags.file), printable(chat.template_place()),
                     context_text(model.generator().capacity(), longest),
                     sampling_text(chat.dialogue().generate_options(), sources), system);
}

ChatLoopOptions loop_options(const ChatFlags& flags, text::TextModel& model) {
  return {.out = flags.out, .is_quiet = flags.quiet, .around_answer = [&](const std::function<void()>& work) {
            with_nonfinite_page(flags.run, flags.file, model.session(), work);
          }};
}

void chat_command(ChatFlags flags, const Command& app, const std::shared_ptr<World>& world) {
  const FirstRankSpeaks quiet(*world);
  check_sampling(app, flags.options);
  text::check_variables(flags.chat.variables);
  flags.text.on_growth = [](int64_t positions) {
    std::cerr << fmt::format("the context is {} tokens long now\n", positions);
  };
  flags.chat.generate = given_sampling(app, flags.options);
  const std::string named = flags.hub_name.empty() ? flags.file : flags.hub_name;
  const std::shared_ptr<const Model> opened = open_named(flags.file, flags.hub_name, *world);
  text::TextModel model(opened, named, session_options(flags.run, world), flags.text);
  if (flags.text.context > 0) model.make_room(flags.text.context);
  flags.chat.generate.logit_bias = logit_bias_of(flags.logit_bias, model);
  text::Chat chat = model.chat(flags.chat);
  const chat::ConfigFiles files = model.config_files();
  warn_of_greedy_settings(app, chat.dialogue().generate_options(), files.where("generation_config.json"));
  ChatLoopOptions looping = loop_options(flags, model);
  looping.sources = setting_sources(app, chat::sampling_origin(files).value_or("defaults of this tool"));
  looping.banner = banner(flags, model, chat, looping.sources);
  if (!ChatLoop(chat.dialogue(), *world, std::move(looping)).run()) throw ExitCode(1);
}

}  // namespace

void add_chat(Command& app) {
  auto flags = std::make_shared<ChatFlags>();
  Command* command = app.add_subcommand("chat", "talk with a language model");
  add_model_name(*command, flags->file, flags->hub_name, kGeneratingModelName);
  command->add_option(
      "--tokenizer", flags->text.tokenizer,
      "a model, or a folder with tokenizer.json, tokenizer_config.json with the chat template and "
      "generation_config.json with the makers' settings; default: those in the file");
  command->add_option("--template", flags->text.chat_template, "another chat template: a file .jinja");
  command->add_option("--variables", flags->chat.variables,
                      "a JSON object that the template sees: {\"enable_thinking\": false}");
  command->add_option("--system", flags->chat.system,
                      "instructions for the model, ahead of the conversation");
  add_number(*command, "--max-tokens", flags->options.max_tokens, "tokens of an answer at most",
             at_least<int64_t>(1));
  add_sampling(*command, flags->options);
  add_logit_bias(*command, flags->logit_bias);
  add_drafts(*command, flags->text);
  add_prefill_chunk(*command, flags->text.prefill_chunk);
  add_context(*command, flags->text.context);
  add_cache_dtype(*command, flags->text.cache_dtype,
                  "keeps keys and values in 8 bits, in about half the bytes of bf16");
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
    run_ranks(flags->mesh, flags->run, SharedWork::kLayers,
              [&](const auto& world) { chat_command(*flags, *command, world); });
  });
}

}  // namespace genesis::tools

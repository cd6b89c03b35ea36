// genesis-run tokenize: shows text as the tokens of a tokenizer.json, and tokens as text.
#include <fmt/ranges.h>

#include <iostream>
#include <sstream>

#include "models/chat/chat_template.h"
#include "schema/core/parse_number.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"
#include "tools/common/printable.h"
#include "tools/common/usage.h"
#include "tools/run/run_commands.h"
#include "models/text/load_tokenizer.h"

namespace genesis::tools {
namespace {

struct TokenizeFlags {
  std::string tokenizer, file, text, chat;
  bool decode = false, no_special = false, generation_prompt = false;
  Output out;
};

std::vector<int64_t> ids_in_json(const std::string& text) {
  const auto json = try_parse_json_text(text);
  const auto& list = json.is_object() && json.contains("ids") ? json["ids"] : json;
  std::vector<int64_t> ids;
  if (!list.is_array())
    fail("expected ids: a JSON array, an object with an array 'ids', or numbers between spaces");
  for (const auto& id : list) {
    if (!id.is_number_integer()) fail("'{}' is not an id", shortened(id.dump(-1, ' ', true)));
    ids.push_back(id.get<int64_t>());
  }
  return ids;
}

std::vector<int64_t> ids_in(const std::string& text) {
  const size_t start = text.find_first_not_of(" \t\r\n");
  if (start != std::string::npos && (text[start] == '[' || text[start] == '{')) return ids_in_json(text);
  std::vector<int64_t> ids;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const auto id = parse_number<int64_t>(word);
    if (!id) fail("{} is not an id", shortened(word));
    ids.push_back(*id);
  }
  return ids;
}

// Decodes tokens. An id of a padded vocabulary without a token decodes to no text.
void decode(const text::NamedTokenizer& named, const std::string& input, const TokenizeFlags& flags) {
  const auto& [tokenizer, count] = named;
  const std::vector<int64_t> ids = ids_in(input);
  for (const int64_t id : ids)
    if (id < 0 || id >= count)
      fail("there is no token {}: the ids of {} are 0 to {}", id, flags.tokenizer, count - 1);
  const std::string text = tokenizer.decode(ids, flags.no_special);
  flags.out.print({{"text", text}}, [&] {
    if (writes_to_terminal())
      std::cout << printable_lines(text) << "\n";
    else
      std::cout << text;
  });
}

// Returns the chat template of a folder, or of a model that brings one.
chat::ChatTemplate template_of(const std::string& path) {
  if (!models::names_model(path)) return chat::ChatTemplate::load(path);
  return chat::ChatTemplate::from(
      chat::ConfigFiles::of_model(std::shared_ptr<const Model>(open_model(path)), path));
}

// Prints the messages as the template renders them, and the tokens of that text.
void render_chat(const text::Tokenizer& tokenizer, const TokenizeFlags& flags) {
  const auto chat = template_of(flags.tokenizer);
  const chat::Conversation conversation = with_context(
      [&] { return chat::parse_conversation(read_whole_file(flags.chat)); }, [&] { return flags.chat; });
  const std::string text =
      chat.render(conversation.messages,
                  {.add_generation_prompt = flags.generation_prompt, .variables = conversation.variables})
          .text;
  const std::vector<int64_t> ids = tokenizer.encode(text, false);
  flags.out.print({{"text", text}, {"ids", ids}}, [&] {
    std::cout << (writes_to_terminal() ? printable_lines(text) : text)
              << fmt::format("\n{}\n", fmt::join(ids, " "));
  });
}

void tokenize(const TokenizeFlags& flags, const Command& app) {
  const bool chat = app.is_given("--chat");
  check_rules(app, {{chat,
                     {"tokenizer", "--chat", "--generation-prompt", "--json"},
                     "with --chat",
                     OptionRule::kAllBut},
                    {!chat, {"--generation-prompt"}, "without --chat FILE"}});
  if (chat) return render_chat(text::load_tokenizer(flags.tokenizer), flags);
  if (app.is_given("--file") == app.is_given("--text"))
    fail_usage("expected one of --file TEXT and --text STRING");
  const text::NamedTokenizer named = text::load_named_tokenizer(flags.tokenizer);
  const std::string input = flags.file.empty() ? flags.text : read_whole_file(flags.file);
  if (flags.decode) return decode(named, input, flags);
  const std::vector<int64_t> ids = named.tokenizer.encode(input, !flags.no_special);
  flags.out.print({{"ids", ids}}, [&] { std::cout << fmt::format("{}\n", fmt::join(ids, " ")); });
}

}  // namespace

void add_tokenize(Command& app) {
  auto flags = std::make_shared<TokenizeFlags>();
  Command* command = app.add_subcommand("tokenize", "text as token ids, and ids as text");
  command
      ->add_option("tokenizer", flags->tokenizer,
                   "a tokenizer.json, a folder with one, or a model that contains one")
      ->required();
  command->add_option("--file", flags->file, "the text, or with --decode the ids");
  command->add_option("--text", flags->text, "the same, on the command line");
  command->add_flag("--decode", flags->decode, "from ids: a JSON array, or numbers between spaces");
  command->add_flag("--no-special", flags->no_special, "add no special tokens, and write none");
  command->add_option(
      "--chat", flags->chat,
      "a JSON file of messages, or {\"messages\": [...], \"tools\": [...]}: their text by the folder's chat "
      "template, and its ids");
  command->add_flag("--generation-prompt", flags->generation_prompt,
                    "with --chat: end with what an answer begins with");
  flags->out.add_to(*command);
  command->footer("Example:\n  genesis-run tokenize tokenizer.json --text \"In the beginning\" --json");
  command->callback([flags, command] { tokenize(*flags, *command); });
}

}  // namespace genesis::tools

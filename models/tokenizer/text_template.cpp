#include "models/tokenizer/text_template.h"

#include <algorithm>

#include "models/tokenizer/json_members.h"
#include "schema/file/json_text.h"

namespace genesis::text {
namespace {

using nlohmann::json;
using Kind = TextTemplate::Kind;

// Returns the sizes that texts of these sizes get in `room` tokens (truncate_encodings() of `tokenizers`).
std::pair<int64_t, int64_t> truncated(int64_t first, int64_t second, int64_t room) {
  if (first + second <= room) return {first, second};
  int64_t shorter = std::min(first, second), longer = std::max(first, second);
  longer = shorter > room ? shorter : std::max(shorter, room - shorter);
  if (shorter + longer > room) shorter = room / 2, longer = room - shorter;
  return first > second ? std::pair(longer, shorter) : std::pair(shorter, longer);
}

// Returns the pieces of "single" or "pair" of a TemplateProcessing. Returns none if a token is not listed in the file, or unless each
// text occurs once.
TextTemplate pieces_of(const json& part, const char* name) {
  TextTemplate result;
  int firsts = 0, seconds = 0;
  for (const json& piece : list_of(member(part, name), name)) {
    const json &sequence = member(piece, "Sequence"), &token = member(piece, "SpecialToken");
    const json& type = member(sequence.is_null() ? token : sequence, "type_id");
    const int64_t type_id = type.is_number_integer() ? type.get<int64_t>() : 0;
    if (!sequence.is_null()) {
      const bool is_first = member(sequence, "id") == "A";
      ++(is_first ? firsts : seconds);
      result.pieces.push_back({is_first ? Kind::kFirst : Kind::kSecond, 0, type_id});
      continue;
    }
    const json& id = member(token, "id");
    const json& listed =
        member(part, "special_tokens").value(id.is_string() ? id.get<std::string>() : "", json());
    const json& ids = member(listed, "ids");
    if (!ids.is_array()) return {};
    for (const json& one : ids) result.pieces.push_back({Kind::kToken, id_of(one, name), type_id});
  }
  return firsts == 1 && seconds == (std::string_view(name) == "pair") ? result : TextTemplate();
}

int64_t token_of(const json& part, const char* name) {
  const json& token = list_of(member(part, name), name);
  if (token.size() != 2) fail("'{}' is not a token and its id", name);
  return id_of(token[1], name);
}

// BERT puts one separator between the texts of a pair, whose second one has the type 1; RoBERTa puts two.
TextTemplates around_pairs(const json& part, bool is_bert) {
  const int64_t begin = token_of(part, "cls"), end = token_of(part, "sep"), second = is_bert ? 1 : 0;
  TextTemplates made;
  made.single.pieces = {{Kind::kToken, begin}, {Kind::kFirst}, {Kind::kToken, end}};
  made.pair = made.single;
  if (!is_bert) made.pair.pieces.push_back({Kind::kToken, end});
  made.pair.pieces.insert(made.pair.pieces.end(), {{Kind::kSecond, 0, second}, {Kind::kToken, end, second}});
  return made;
}

// Collects the processors that put tokens around texts.
void collect(const json& part, std::vector<json>& found) {
  const json& type = member(part, "type");
  if (type == "Sequence")
    for (const json& one : list_of(member(part, "processors"), "processors")) collect(one, found);
  else if (type == "TemplateProcessing" || type == "BertProcessing" || type == "RobertaProcessing")
    found.push_back(part);
}

}  // namespace

int64_t TextTemplate::added() const {
  return std::ranges::count_if(pieces, [](const Piece& piece) { return piece.kind == Kind::kToken; });
}

EncodedTexts TextTemplate::apply(std::span<const int64_t> first, std::span<const int64_t> second,
                                 int64_t longest) const {
  const int64_t room = longest - added();
  if (longest > 0 && room < 0)
    fail("{} tokens have no room for a text: the tokenizer adds {} tokens to each", longest, added());
  const auto [kept, kept_second] = longest > 0 ? truncated(std::ssize(first), std::ssize(second), room)
                                               : std::pair(std::ssize(first), std::ssize(second));
  EncodedTexts result;
  result.dropped = std::ssize(first) + std::ssize(second) - kept - kept_second;
  for (const auto& [kind, id, type] : pieces) {
    if (kind == Kind::kToken)
      result.ids.push_back(id);
    else if (kind == Kind::kFirst)
      result.ids.insert(result.ids.end(), first.begin(), first.begin() + kept);
    else
      result.ids.insert(result.ids.end(), second.begin(), second.begin() + kept_second);
    result.types.resize(result.ids.size(), type);
  }
  return result;
}

TextTemplates read_text_templates(std::string_view text) {
  const json root = parse_json_object(text, "the tokenizer.json");
  std::vector<json> found;
  collect(member(root, "post_processor"), found);
  if (found.empty()) return {{{{Kind::kFirst}}}, {{{Kind::kFirst}, {Kind::kSecond, 0, 1}}}};
  const json& part = found.front();
  const json& type = member(part, "type");
  TextTemplates made =
      type == "TemplateProcessing"
          ? TextTemplates{pieces_of(part, "single"),
                          member(part, "pair").is_array() ? pieces_of(part, "pair") : TextTemplate()}
          : around_pairs(part, type == "BertProcessing");
  if (found.size() > 1 || made.single.pieces.empty())
    fail("the tokenizer.json puts tokens around texts in several steps, or in an unknown form");
  return made;
}

}  // namespace genesis::text

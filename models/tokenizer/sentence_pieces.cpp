#include "models/tokenizer/sentence_pieces.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>

#include "models/tokenizer/patterns.h"
#include "models/tokenizer/unicode/characters_map.h"
#include "models/tokenizer/words/prefix_tree.h"
#include "schema/core/error.h"
#include "schema/file/format/utf8.h"

namespace genesis::text {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using Kind = SentencePieces::Kind;

constexpr const char* kSpace = "\u2581";
// Memory for merges. Gemma, with 256,000 pieces, needs a tenth. A damaged file could need the third power of its size.
constexpr size_t kMaxMergeBytes = size_t{256} << 20;

bool is_added(PieceType type) {
  return type == PieceType::kUnknown || type == PieceType::kControl || type == PieceType::kUserDefined;
}

// Returns a piece as a tokenizer.json writes it. GGUF files write BERT's pieces in another form: "\u2581the" and "ing" are "the"
// and "##ing" there, and special tokens in brackets stay.
std::string text_of(const SentencePiece& piece, Kind kind) {
  if (kind != Kind::kWordPiece || is_added(piece.type)) return piece.text;
  if (piece.text.starts_with(kSpace)) return piece.text.substr(std::string_view(kSpace).size());
  if (piece.text.starts_with('[') && piece.text.ends_with(']')) return piece.text;
  return "##" + piece.text;
}

const SentencePiece& piece_of(const SentencePieces& model, int64_t id, const char* role) {
  if (id < 0 || static_cast<uint64_t>(id) >= model.pieces.size())
    fail("the id of the {} token of its tokenizer is {}, and it has {} tokens", role, id,
         model.pieces.size());
  return model.pieces[static_cast<size_t>(id)];
}

void check(const SentencePieces& model) {
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    if (!utf8::is_valid(piece.text)) fail("token {} of its tokenizer is not valid UTF-8", id);
    if (!std::isfinite(piece.score)) fail("token {} of its tokenizer has a score that is not finite", id);
  }
}

ordered_json added_tokens(const SentencePieces& model) {
  ordered_json added = ordered_json::array();
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    if (!is_added(piece.type) || piece.text.empty()) continue;
    added.push_back(
        added_token_json(static_cast<int64_t>(id), piece.text, piece.type != PieceType::kUserDefined));
    added.back()["rstrip"] = piece.strips_right;
  }
  return added;
}

ordered_json replace_json(const char* kind, const char* old, const char* made) {
  return {{"type", "Replace"}, {"pattern", {{kind, old}}}, {"content", made}};
}

ordered_json sequence_json(const char* name, ordered_json parts) {
  if (parts.empty()) return nullptr;
  return {{"type", "Sequence"}, {name, std::move(parts)}};
}

std::string base64(std::string_view bytes) {
  constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t group = 0;
    for (size_t i = 0; i < 3; ++i)
      group = group << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    for (size_t i = 0; i < 4; ++i) text += at + i > bytes.size() ? '=' : kDigits[group >> (18 - 6 * i) & 63];
  }
  return text;
}

ordered_json normalizer(const SentencePieces& model) {
  ordered_json steps = ordered_json::array();
  if (!model.characters_map.empty())
    steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", base64(model.characters_map)}});
  if (model.kind == Kind::kWordPiece)
    steps.push_back({{"type", "BertNormalizer"},
                     {"clean_text", true},
                     {"handle_chinese_chars", true},
                     {"strip_accents", true},
                     {"lowercase", true}});
  if (model.kind != Kind::kWordPiece && model.merges_spaces) {
    steps.push_back({{"type", "Strip"}, {"strip_left", model.kind == Kind::kBpe}, {"strip_right", true}});
    steps.push_back(replace_json("Regex", " {2,}", " "));
  }
  if (model.kind == Kind::kBpe) {
    if (model.adds_space) steps.push_back({{"type", "Prepend"}, {"prepend", kSpace}});
    steps.push_back(replace_json("String", " ", kSpace));
  }
  return sequence_json("normalizers", std::move(steps));
}

// Returns true if a piece has a space behind its beginning, so that words cannot be encoded one by one.
bool has_inner_space(const SentencePieces& model) {
  return std::ranges::any_of(model.pieces, [](const SentencePiece& piece) {
    return piece.type == PieceType::kNormal && piece.text.find(kSpace, 1) != std::string::npos;
  });
}

ordered_json metaspace(const SentencePieces& model) {
  return {{"type", "Metaspace"},
          {"replacement", kSpace},
          {"prepend_scheme", model.adds_space ? "always" : "never"},
          {"split", !has_inner_space(model)}};
}

ordered_json pre_tokenizer(const SentencePieces& model) {
  if (model.kind == Kind::kBpe) return nullptr;
  if (model.kind == Kind::kWordPiece) return {{"type", "BertPreTokenizer"}};
  return metaspace(model);
}

ordered_json decoder(const SentencePieces& model) {
  if (model.kind == Kind::kWordPiece) return {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  ordered_json steps = ordered_json::array(
      {replace_json("String", kSpace, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}});
  if (model.adds_space) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return sequence_json("decoders", std::move(steps));
}

ordered_json post_processor(const SentencePieces& model) {
  if (model.prefix.empty() && model.suffix.empty()) return nullptr;
  ordered_json pieces = ordered_json::array(), tokens = ordered_json::object();
  const auto add = [&](const std::vector<int64_t>& ids, const char* role) {
    for (const int64_t id : ids) {
      const std::string& name = piece_of(model, id, role).text;
      pieces.push_back({{"SpecialToken", {{"id", name}, {"type_id", 0}}}});
      tokens[name] = {{"id", name}, {"ids", {id}}, {"tokens", {name}}};
    }
  };
  add(model.prefix, "first");
  pieces.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  add(model.suffix, "last");
  ordered_json pair = pieces;
  pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
  return {{"type", "TemplateProcessing"},
          {"single", std::move(pieces)},
          {"pair", std::move(pair)},
          {"special_tokens", std::move(tokens)}};
}

// Returns the vocabulary; an unused piece that equals another one is left out.
ordered_json vocabulary(const SentencePieces& model) {
  json ids = json::object();
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    const std::string text = text_of(piece, model.kind);
    if (text.empty() || ids.emplace(text, id).second || piece.type == PieceType::kUnused) continue;
    fail("its tokenizer has the token '{}' twice", text.substr(0, 60));
  }
  return ids;
}

size_t characters_of(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }));
}

// Finds the ways to make a piece of two others. Takes time proportional to the sizes of the pieces, however long one is.
class PairFinder {
 public:
  explicit PairFinder(const std::vector<SentencePiece>& pieces) : reversed_(pieces.size()) {
    std::vector<std::pair<std::string_view, uint32_t>> forward, backward;
    for (uint32_t id = 0; id < pieces.size(); ++id) {
      const std::string& text = pieces[id].text;
      if (text.empty()) continue;
      reversed_[id].assign(text.rbegin(), text.rend());
      forward.emplace_back(text, id);
      backward.emplace_back(reversed_[id], id);
    }
    lefts_ = PrefixTree(std::move(forward));
    rights_ = PrefixTree(std::move(backward));
  }

  // Calls `on_pair(bytes of the left one)` for each way, the shortest left one first.
  template <class OnPair>
  void for_each(std::string_view text, const OnPair& on_pair) const {
    std::vector<bool> has_right(text.size() + 1);  // a piece begins there and ends with the text
    uint32_t node = PrefixTree::kRoot;
    for (size_t at = text.size(); at > 0 && step(rights_, node, text[at - 1]); --at)
      has_right[at - 1] = rights_.token(node) != PrefixTree::kNone;
    node = PrefixTree::kRoot;
    for (size_t at = 1; at < text.size() && step(lefts_, node, text[at - 1]); ++at)
      if (lefts_.token(node) != PrefixTree::kNone && has_right[at]) on_pair(at);
  }

 private:
  static bool step(const PrefixTree& tree, uint32_t& node, char byte) {
    node = tree.next(node, static_cast<unsigned char>(byte));
    return node != PrefixTree::kNone;
  }

  std::vector<std::string> reversed_;
  PrefixTree lefts_, rights_;
};

// Returns the merges in the order of their ranks: by the score of the made piece, then as transformers orders them.
ordered_json merges(const SentencePieces& model) {
  struct Way {
    const SentencePiece* piece;
    size_t left_bytes, left, right;  // sizes; `left` and `right` in characters
  };
  std::vector<Way> ways;
  size_t left_of_limit = kMaxMergeBytes;
  const PairFinder pairs(model.pieces);
  for (const SentencePiece& piece : model.pieces)
    pairs.for_each(piece.text, [&](size_t left_bytes) {
      const size_t needed = sizeof(Way) + piece.text.size();
      if (needed > left_of_limit)
        fail("the pieces of its tokenizer can be merged in too many ways: they need more than {} MiB",
             kMaxMergeBytes >> 20);
      left_of_limit -= needed;
      const size_t left = characters_of(std::string_view(piece.text).substr(0, left_bytes));
      ways.push_back({&piece, left_bytes, left, characters_of(piece.text) - left});
    });
  std::ranges::stable_sort(ways, [](const Way& a, const Way& b) {
    return std::tuple(-a.piece->score, -static_cast<int64_t>(a.left), -static_cast<int64_t>(a.right)) <
           std::tuple(-b.piece->score, -static_cast<int64_t>(b.left), -static_cast<int64_t>(b.right));
  });
  ordered_json list = ordered_json::array();
  for (const Way& way : ways)
    list.push_back({way.piece->text.substr(0, way.left_bytes), way.piece->text.substr(way.left_bytes)});
  return list;
}

bool has_bytes(const SentencePieces& model) {
  return std::ranges::any_of(model.pieces,
                             [](const SentencePiece& piece) { return piece.type == PieceType::kByte; });
}

ordered_json model_json(const SentencePieces& model) {
  if (model.kind == Kind::kWordPiece) {
    if (!model.unk_id) fail("its tokenizer has no unknown token");
    constexpr int kNoLimit = 1'000'000'000;  // characters of a word; llama.cpp has no limit
    return {{"type", "WordPiece"},
            {"unk_token", text_of(piece_of(model, *model.unk_id, "unknown"), model.kind)},
            {"continuing_subword_prefix", "##"},
            {"max_input_chars_per_word", kNoLimit},
            {"vocab", vocabulary(model)}};
  }
  if (model.kind == Kind::kUnigram) {
    ordered_json rows = ordered_json::array(), unknown;
    for (const SentencePiece& piece : model.pieces) rows.push_back({piece.text, piece.score});
    if (model.unk_id) {
      piece_of(model, *model.unk_id, "unknown");
      unknown = *model.unk_id;
    }
    return {{"type", "Unigram"}, {"unk_id", unknown}, {"vocab", rows}, {"byte_fallback", has_bytes(model)}};
  }
  ordered_json bpe = bpe_json(false);
  if (model.unk_id) bpe["unk_token"] = piece_of(model, *model.unk_id, "unknown").text;
  bpe["fuse_unk"] = true;
  bpe["byte_fallback"] = has_bytes(model);
  bpe["vocab"] = vocabulary(model);
  bpe["merges"] = merges(model);
  return bpe;
}

}  // namespace

std::string tokenizer_json_of(const SentencePieces& model) {
  check(model);
  const ordered_json root = {{"version", "1.0"},
                             {"truncation", nullptr},
                             {"padding", nullptr},
                             {"added_tokens", added_tokens(model)},
                             {"normalizer", normalizer(model)},
                             {"pre_tokenizer", pre_tokenizer(model)},
                             {"post_processor", post_processor(model)},
                             {"decoder", decoder(model)},
                             {"model", model_json(model)}};
  return root.dump() + "\n";
}

}  // namespace genesis::text

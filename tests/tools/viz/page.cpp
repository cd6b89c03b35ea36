#include "tests/tools/viz/page.h"

#include <gtest/gtest.h>
#include <zlib.h>

namespace genesis::testing {
namespace {

std::string from_base64(const std::string& text) {
  static const std::string kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t word = 0;
  int bits = 0;
  for (const char c : text.substr(0, text.find('='))) {
    const size_t digit = kDigits.find(c);
    EXPECT_NE(digit, std::string::npos) << c;
    word = word << 6 | static_cast<uint32_t>(digit);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>(word >> bits & 0xFF);
  }
  return bytes;
}

std::string inflated(const std::string& packed) {
  std::string text;
  z_stream stream{};
  EXPECT_EQ(inflateInit(&stream), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  for (int code = Z_OK; code == Z_OK;) {
    char piece[1 << 14];
    stream.next_out = reinterpret_cast<Bytef*>(piece);
    stream.avail_out = sizeof piece;
    code = inflate(&stream, Z_NO_FLUSH);
    EXPECT_TRUE(code == Z_OK || code == Z_STREAM_END) << code;
    text.append(piece, sizeof piece - stream.avail_out);
  }
  inflateEnd(&stream);
  return text;
}

}  // namespace

std::string data_of_page(const std::string& html) {
  const std::string begin = "<script id=\"data\" type=\"application/octet-stream\">";
  const size_t at = html.find(begin);
  EXPECT_NE(at, std::string::npos);
  if (at == std::string::npos) return "";
  const size_t from = at + begin.size();
  return inflated(from_base64(html.substr(from, html.find('<', from) - from)));
}

PageReader::PageReader(nlohmann::json page) : data(std::move(page)) {
  const auto &parents = data["paths"]["parent"], &segments = data["paths"]["segment"];
  for (size_t i = 0; i < parents.size(); ++i) {
    const auto up = parents[i].get<size_t>();
    EXPECT_LE(up, i);
    paths.push_back((up == 0 ? "" : paths[i - up] + ".") + text(segments[i]));
  }
}

std::vector<int64_t> PageReader::undo_deltas(const nlohmann::json& column) {
  std::vector<int64_t> numbers;
  int64_t number = 0;
  for (const auto& difference : column) numbers.push_back(number += difference.get<int64_t>());
  return numbers;
}

const nlohmann::json& PageReader::entry(const std::string& name, size_t model) const {
  for (const auto& each : data.at("models").at(model).at("entries"))
    if (each["name"] == name) return each;
  ADD_FAILURE() << "no entry point " << name;
  static const nlohmann::json kNone;
  return kNone;
}

std::vector<std::string> PageReader::node_names(const nlohmann::json& graph) const {
  std::vector<std::string> names;
  for (const int64_t index : undo_deltas(graph["nodes"]["name"])) names.push_back(path(index));
  return names;
}

std::vector<std::vector<int64_t>> PageReader::node_inputs(const nlohmann::json& graph) {
  std::vector<std::vector<int64_t>> nodes;
  auto first = static_cast<int64_t>(graph["values"]["kind"].size());
  size_t at = 0;
  for (size_t n = 0; n < graph["nodes"]["op"].size(); ++n) {
    nodes.emplace_back();
    for (int i = 0; i < graph["nodes"]["inputs"][n].get<int>(); ++i) {
      const auto reference = graph["input"].at(at++).get<int64_t>();
      nodes.back().push_back(reference > 0 ? first - reference : -1 - reference);
    }
    first += graph["nodes"]["outputs"][n].get<int64_t>();
  }
  EXPECT_EQ(at, graph["input"].size());
  return nodes;
}

}  // namespace genesis::testing

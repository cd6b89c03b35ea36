#include "tools/viz/page_file.h"

#include <zlib.h>

#include "schema/core/error.h"
#include "schema/file/io/atomic_write.h"
#include "schema/messages/log.h"
#include "tools/common/printable.h"

namespace genesis::viz {
namespace {

#include "page.inc"

constexpr std::string_view kDataElement = "<script id=\"data\" type=\"application/octet-stream\">";
constexpr std::string_view kNoPage = "<meta name=\"page\" content=\"none\">";  // in tools/viz/no_page.html
constexpr std::string_view kAsksNobody = "connect-src 'none'", kAsksItsServer = "connect-src 'self'";

std::string page_template() {
  std::string page(kPageBytes, '\0');
  uLongf size = kPageBytes;
  const int code = uncompress(reinterpret_cast<Bytef*>(page.data()), &size, kPackedPage, sizeof kPackedPage);
  GENESIS_ASSERT(code == Z_OK && size == kPageBytes);
  return page;
}

}  // namespace

std::string data_text(const Json& data) { return data.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string page_html(const Json& data, bool live) {
  std::string page = page_template();
  page.insert(page.find(kDataElement) + kDataElement.size(), base64(deflated(data_text(data))));
  if (live) page.replace(page.find(kAsksNobody), kAsksNobody.size(), kAsksItsServer);
  return page;
}

std::string content_security_policy(const std::string& html) {
  constexpr std::string_view kBegin = "<meta http-equiv=\"Content-Security-Policy\" content=\"";
  const size_t begin = html.find(kBegin);
  if (begin == std::string::npos) return "default-src 'none'";
  const size_t from = begin + kBegin.size();
  return html.substr(from, html.find('"', from) - from);
}

void write_page(const std::string& output, const Json& data) {
  if (!output.ends_with(".json") && page_template().find(kNoPage) != std::string::npos)
    log_warning(
        "this Genesis was built without the visualizer's page, so {} holds the data and shows nothing: "
        "install esbuild and python3-xstatic-dagre and build again",
        tools::printable(output));
  write_file_atomically(output, output.ends_with(".json") ? data_text(data) : page_html(data));
}

std::string deflated(std::string_view text) {
  uLongf size = compressBound(text.size());
  std::string packed(size, '\0');
  const int code = compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                             reinterpret_cast<const Bytef*>(text.data()), text.size(), Z_BEST_COMPRESSION);
  if (code != Z_OK) fail("cannot compress {} bytes of a page's data: too little memory", text.size());
  packed.resize(size);
  return packed;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k)
      word = word << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (size_t k = 0; k < 4; ++k) text += k <= count ? kDigits[word >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

}  // namespace genesis::viz

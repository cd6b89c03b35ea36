#include "schema/file/writer.h"

#include "schema/file/atomic_write.h"
#include "schema/file/check_records.h"
#include "schema/file/flat.h"
#include "schema/file/format.h"
#include "schema/file/layout.h"

namespace genesis {
namespace {

using namespace file;

void write_file(const std::filesystem::path& path, const Layout& layout, std::span<const std::byte> graph) {
  Header header;
  header.graph_bytes = graph.size();
  header.data_offset = data_offset_for(graph.size(), layout.data_bytes > 0);
  header.file_bytes = header.data_offset + layout.data_bytes;
  AtomicFile out(path, header.file_bytes);
  out.write(encode_header(header, graph));
  out.write(graph);
  uint64_t at = kHeaderBytes + graph.size();
  for (const Piece& piece : layout.pieces) {
    out.write_zeros(header.data_offset + piece.offset - at);
    out.write(piece.bytes);
    at = header.data_offset + piece.offset + piece.bytes.size();
  }
  out.commit();
}

}  // namespace

void save_model(const Model& model, const std::filesystem::path& path, const SaveOptions& options) {
  with_context(
      [&] {
        const Layout layout = lay_out(model, options.segment_bytes);
        check_records(layout.record, layout.data_bytes);
        const std::vector<std::byte> graph = encode_graph(layout.record);
        if (graph.size() > kMaxGraphBytes)
          fail("the graph takes {} bytes, the limit is {}: move large texts out of the metadata",
               graph.size(), kMaxGraphBytes);
        write_file(path, layout, graph);
      },
      [&] { return "while saving '" + path.string() + "'"; });
}

}  // namespace genesis

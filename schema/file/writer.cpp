#include "schema/file/writer.h"

#include <algorithm>

#include "schema/file/format/check_records.h"
#include "schema/file/format/flat.h"
#include "schema/file/format/format.h"
#include "schema/file/io/atomic_write.h"
#include "schema/file/io/temporary_name.h"
#include "schema/file/layout.h"
#include "schema/graph/verify.h"

namespace genesis {
namespace {

using namespace file;

constexpr uint64_t kWrittenAtOnce = uint64_t{64} << 20;  // bytes between two reports of progress

uint16_t minor_of(const ModelRecord& record) {
  const auto has_layout = [](const StateRecord& state) { return state.cache.has_value(); };
  if (std::ranges::any_of(record.states, has_layout)) return kMinorWithCaches;
  const auto is_linked = [](const SegmentRecord& segment) { return segment.is_linked(); };
  if (std::ranges::any_of(record.segments, is_linked)) return kMinorWithLinks;
  return record.files.empty() ? kMinor : kMinorWithFiles;
}

void write_file(const std::filesystem::path& path, const Layout& layout, std::span<const std::byte> graph,
                const SaveOptions& options) {
  const OnProgress& progress = options.progress;
  Header header;
  header.major = layout.record.major();
  header.minor = minor_of(layout.record);
  header.graph_bytes = graph.size();
  header.data_offset = data_offset_for(graph.size(), layout.data_bytes > 0);
  header.file_bytes = header.data_offset + layout.data_bytes;
  AtomicFile out(path, header.file_bytes, options.link);
  out.write(encode_header(header, graph));
  out.write(graph);
  uint64_t at = kHeaderBytes + graph.size();
  for (const Piece& piece : layout.pieces) {
    out.write_zeros(header.data_offset + piece.offset - at);
    for (uint64_t done = 0; done < piece.bytes.size(); done += kWrittenAtOnce) {
      const auto part = piece.bytes.subspan(done, std::min(piece.bytes.size() - done, kWrittenAtOnce));
      out.write(part);
      if (progress) progress("writing", piece.offset + done + part.size(), layout.data_bytes);
    }
    at = header.data_offset + piece.offset + piece.bytes.size();
  }
  if (progress && layout.data_bytes > kWrittenAtOnce) progress("bringing to the disk", 0, 0);
  out.commit();
}

// Returns the path of a file relative to the real folder of the new file. Both the file and the name of the new one may be
// symbolic links.
std::string path_from(const std::filesystem::path& saved, const std::filesystem::path& file,
                      LinkAtName link) {
  namespace fs = std::filesystem;
  const fs::path from = link == LinkAtName::kFollowed ? folder_of(fs::weakly_canonical(fs::absolute(saved)))
                                                      : fs::weakly_canonical(folder_of(fs::absolute(saved))),
                 to = fs::weakly_canonical(fs::absolute(folder_of(file)));
  return (to.lexically_relative(from) / file.filename()).lexically_normal().string();
}

std::vector<LinkedFile> links_of(const SaveOptions& options, const std::filesystem::path& path) {
  std::vector<LinkedFile> links;
  for (const auto& file : options.links) {
    std::error_code none;
    if (std::filesystem::equivalent(path, file->path(), none))
      fail(
          "the weights are in this very file, which the new one would only be linked to: name another file, "
          "or save without links");
    links.push_back(
        {file,
         {path_from(path, file->path(), options.link), file->stamp().bytes, file->stamp().written},
         segments_in(*file)});
  }
  return links;
}

}  // namespace

void save_model(const Model& model, const std::filesystem::path& path, const SaveOptions& options) {
  with_context(
      [&] {
        verify(model);  // an invalid model must not replace an existing file
        const Layout layout = lay_out(model, options, links_of(options, path));
        check_records(layout.record, layout.data_bytes);
        const std::vector<std::byte> graph = encode_graph(layout.record);
        if (graph.size() > kMaxGraphBytes)
          fail("the graph takes {} bytes, the limit is {}: move large texts out of the metadata",
               graph.size(), kMaxGraphBytes);
        write_file(path, layout, graph, options);
      },
      [&] { return "while saving '" + path.string() + "'"; });
}

}  // namespace genesis

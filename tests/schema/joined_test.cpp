// Tests tensors joined from several files: mapped side by side or copied, and records that are invalid.
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "schema/file/layout.h"
#include "schema/file/reader.h"
#include "schema/file/writer.h"
#include "tests/error_of.h"
#include "tests/resident_bytes.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

using namespace testing;
namespace fs = std::filesystem;

Tensor numbers(int64_t first, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), static_cast<float>(first));
  return Tensor::of<float>({count}, values);
}

// A state with `each` values in each of several files.
class Joined : public ::testing::Test {
 protected:
  fs::path part(int number) const { return folder_ / fmt::format("part-{}.genesis", number); }
  fs::path file() const { return folder_ / "joined.genesis"; }

  void save(const TensorType& type, int count, int64_t each, int64_t runs, bool keeps_pieces = true,
            int64_t pieces_each = 1) {
    Model model;
    model.add_state({"w", type, StateRole::kParameter, true, {}});
    SaveOptions options{.keeps_pieces = keeps_pieces};
    for (int i = 0; i < count; ++i) {
      Model states;
      states.add_state({"before", {DType::f32, {5}}, StateRole::kBuffer, false, numbers(1000, 5)});
      states.add_state({"w", {DType::f32, {each}}, StateRole::kParameter, true, numbers(i * each, each)});
      save_model(states, part(i), {.segment_bytes = 1, .deduplicate = false});
      const auto mapping = MappedFile::open(part(i));
      const auto loaded = load_model_from(mapping, mapping->bytes());
      if (keeps_pieces) options.links.push_back(mapping);
      options.joined["w"].pieces.push_back(loaded->state(1).initial);
    }
    options.joined["w"].runs = runs;
    options.joined["w"].pieces_each = pieces_each;
    save_model(model, file(), options);
  }
  std::vector<double> loaded() const {
    return load_model(file(), {.verify = Verify::kFull})->state(0).initial.to_doubles();
  }

  const TemporaryFolder folder_;
};

// Writes the state as one tensor in the file itself, byte-identical to a model that has the values.
TEST_F(Joined, WrittenAsOne) {
  for (const int64_t runs : {1, 7}) {
    save({DType::f32, {7, 3}}, 3, 7, runs, false);
    Model model;
    std::vector<double> expected(21);
    for (int64_t run = 0; run < runs; ++run)
      for (int64_t piece = 0; piece < 3; ++piece)
        for (int64_t i = 0; i < 7 / runs; ++i)
          expected[static_cast<size_t>((run * 3 + piece) * (7 / runs) + i)] =
              numbers(piece * 7 + run * (7 / runs) + i, 1).to_doubles()[0];
    const std::vector<float> values(expected.begin(), expected.end());
    model.add_state(
        {"w", {DType::f32, {7, 3}}, StateRole::kParameter, true, Tensor::of<float>({7, 3}, values)});
    EXPECT_EQ(loaded(), expected);
    EXPECT_EQ(inspect_file(file()).major, 1);
    save_model(model, folder_ / "plain.genesis");
    EXPECT_EQ(read_bytes(file()), read_bytes(folder_ / "plain.genesis"));
  }
}

TEST_F(Joined, OneBehindTheOther) {
  save({DType::f32, {3, 7}}, 3, 7, 1);
  EXPECT_EQ(loaded(), numbers(0, 21).to_doubles());
  EXPECT_EQ(inspect_file(file()).major, 3);
  EXPECT_EQ(inspect_file(file()).data_bytes, 0U);
  EXPECT_EQ(inspect_file(part(0)).major, 1) << "a file without such tensors is what it was";
}

// Two files with two columns of three rows each.
TEST_F(Joined, InEachRunEachHasItsPart) {
  save({DType::f32, {3, 4}}, 2, 6, 3);
  EXPECT_EQ(loaded(), (std::vector<double>{0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11}));
}

// Four files, of which two neighbors together have two columns, so that a piece ends within a run. With one run,
// readers need not know about sets.
TEST_F(Joined, InEachRunEachSetHasItsPart) {
  const std::vector<double> expected = {0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11};
  for (const bool keeps_pieces : {true, false}) {
    save({DType::f32, {3, 4}}, 4, 3, 3, keeps_pieces, 2);
    EXPECT_EQ(loaded(), expected);
    EXPECT_EQ(inspect_file(file()).major, keeps_pieces ? 4 : 1);
  }
  save({DType::f32, {3, 4}}, 4, 3, 1, true, 2);
  EXPECT_EQ(loaded(), numbers(0, 12).to_doubles());
  EXPECT_EQ(inspect_file(file()).major, 3);
}

// 64 MiB are pages of four files. The numbers are the same, and loading the model reads none of them.
TEST_F(Joined, LargePiecesAreMapped) {
  const int64_t each = 4 << 20;
  save({DType::f32, {4, each}}, 4, each, 1);
  const int64_t before = resident_bytes();
  const auto model = load_model(file());
  EXPECT_LT(resident_bytes() - before, 8 << 20);
  const auto values = model->state(0).initial.as<float>();
  for (size_t i = 0; i < values.size(); i += 4099) ASSERT_EQ(values[i], static_cast<float>(i));
  EXPECT_EQ(values.back(), static_cast<float>(4 * each - 1));
}

TEST_F(Joined, SavedAgainHoldsThem) {
  save({DType::f32, {2, 300000}}, 2, 300000, 1);
  const auto model = load_model(file());
  save_model(*model, folder_ / "alone.genesis");
  for (int i = 0; i < 2; ++i) fs::remove(part(i));
  EXPECT_EQ(load_model(folder_ / "alone.genesis")->state(0).initial.to_doubles(),
            numbers(0, 600000).to_doubles());
  EXPECT_NE(load_error(file()).find("part-0.genesis"), std::string::npos);
}

// The hashes inside a part file are those that the model is checked against.
TEST_F(Joined, AChangedByteIsFound) {
  save({DType::f32, {2, 7}}, 2, 7, 1);
  std::string bytes = read_bytes(part(1));
  bytes[bytes.size() - 3] ^= 1;
  write_bytes(part(1), bytes);
  EXPECT_NE(load_error(file()).find("part-1.genesis"), std::string::npos);
}

// A record in which row 2 is joined from rows 0 and 1, all in the file's own data.
class JoinedRecord : public ::testing::Test {
 protected:
  JoinedRecord() {
    Model model;
    for (const char* name : {"a", "b"})
      model.add_state({name, {DType::f32, {4}}, StateRole::kBuffer, false, numbers(name[0], 4)});
    const file::Layout layout = file::lay_out(model, {});
    record_ = layout.record;
    data_.resize(layout.data_bytes);
    for (const file::Piece& piece : layout.pieces)
      std::copy(piece.bytes.begin(), piece.bytes.end(),
                reinterpret_cast<std::byte*>(data_.data()) + piece.offset);
    record_.states.push_back({"w", {DType::f32, {8}}, StateRole::kParameter, true, 2});
    file::TensorRecord whole{.name = "w", .type = {DType::f32, {8}}};
    whole.bytes = 32;
    whole.pieces = {0, 1};
    record_.tensors.push_back(whole);
  }
  file::TensorRecord& whole() { return record_.tensors[2]; }
  std::string refusal() const {
    return error_of([&] { load_bytes(file_of(record_, data_)); });
  }

  file::ModelRecord record_;
  std::string data_;
};

TEST_F(JoinedRecord, IsRead) {
  EXPECT_EQ(refusal(), "");
  whole().runs = 2;
  EXPECT_EQ(load_bytes(file_of(record_, data_))->state(2).initial.to_doubles(),
            (std::vector<double>{97, 98, 98, 99, 99, 100, 100, 101}));
}

TEST_F(JoinedRecord, ThatLiesIsRefused) {
  const file::ModelRecord honest = record_;
  const auto says = [&](const char* part) {
    EXPECT_NE(refusal().find(part), std::string::npos) << part << " / " << refusal();
    record_ = honest;
  };
  whole().pieces = {0, 2};
  says("joined from row 2");
  whole().pieces = {0, 9};
  says("joined from row 9");
  whole().pieces = {0, 0};
  says("joined from 'a', as another is");
  whole().pieces = {0};
  says("no such part of it");
  whole().pieces = {0, 1, 1};
  says("cannot be joined from 3 pieces");
  whole().pieces_each = 0;
  says("2 pieces are no sets of 0");
  whole().pieces_each = 3;
  says("2 pieces are no sets of 3");
  whole().pieces_each = uint64_t{1} << 63;
  says("2 pieces are no sets of");
  whole().runs = 0;
  says("0 runs");
  whole().runs = 3;
  says("3 runs");
  whole().runs = uint64_t{1} << 63;
  says("cannot be joined");
  whole().offset = 256;
  says("a place of its own");
  whole().bytes = 64;
  says("64 bytes given");
  record_.tensors[0].pieces_each = 2;
  says("1 runs and 2 pieces each: expected 1 and 1 (in tensor 'a')");
  record_.tensors[1].runs = 2;
  says("2 runs and 1 pieces each: expected 1 and 1 (in tensor 'b')");
  record_.tensors[1].type = {DType::i32, {4}};
  record_.states[1].type = {DType::i32, {4}};
  says("joined from 'b'");
  record_.tensors.push_back(whole());
  says("as another is");
  record_.tensors.push_back(whole());
  record_.tensors.back().pieces = {2};
  says("no such part of it");
}

}  // namespace
}  // namespace genesis

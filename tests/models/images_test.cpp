// Tests pictures: decoding and resizing against Pillow and torchvision (images/make_pictures.py), damaged files, folders of classes
// as training data, and a training that ends and resumes.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "builder/genesis.h"
#include "models/data/image_folder.h"
#include "models/images/image_input.h"
#include "models/images/read_picture.h"
#include "models/jobs/train_job.h"
#include "schema/core/setting_error.h"
#include "schema/file/io/read_file.h"
#include "schema/file/other_formats/safetensors.h"
#include "schema/file/reader.h"
#include "schema/file/writer.h"
#include "schema/ops/nn/loss.h"
#include "tests/error_of.h"
#include "tests/schema/file_models.h"

namespace genesis::images {
namespace {

namespace fs = std::filesystem;
using genesis::testing::error_of;

fs::path pictures() { return fs::path(GENESIS_SOURCE_ROOT) / "tests/models/images"; }

// A build without the libraries reads no pictures, so there is nothing to test.
class Pictures : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!why_no_pictures().empty()) GTEST_SKIP() << why_no_pictures();
  }
  const SafeTensors expected_ = read_safetensors(pictures() / "expected.safetensors");
  const genesis::testing::TemporaryFolder folder_;
};

void expect_equal(const Picture& picture, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(expected.type(), (TensorType{DType::u8, {picture.height, picture.width, 3}})) << what;
  const auto* bytes = reinterpret_cast<const uint8_t*>(expected.data());
  for (size_t i = 0; i < picture.rgb.size(); ++i)
    ASSERT_EQ(picture.rgb[i], bytes[i]) << what << " at byte " << i;
}

TEST_F(Pictures, AreDecodedAsPillowDoes) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(pictures())) {
    if (!has_picture_name(entry.path())) continue;
    const std::string name = entry.path().filename().string();
    expect_equal(read_picture(entry.path()), expected_.tensors.at(name), name);
    ++count;
  }
  EXPECT_EQ(count, 13);
}

TEST_F(Pictures, AreResizedAsPillowDoes) {
  const Picture photo = read_picture(pictures() / "photo.jpg");
  for (const auto& [name, tensor] : expected_.tensors) {
    if (!name.starts_with("resized.")) continue;
    const Filter filter = name.find("bicubic") == std::string::npos ? Filter::kBilinear : Filter::kBicubic;
    expect_equal(resized(photo, {0, 0, photo.width, photo.height}, tensor.size(1), tensor.size(0), filter),
                 tensor, name);
  }
  expect_equal(resized(photo, {5, 3, 33, 17}, 16, 24), expected_.tensors.at("part"), "part");
}

TEST_F(Pictures, BecomeInputsAsTorchvisionDoes) {
  const ImageInput input{.name = "x", .height = 28, .width = 28};
  const ImageSettings settings{.resize = 32};
  const Picture photo = read_picture(pictures() / "photo.jpg");
  const auto prepare = [&](int64_t) { return prepared(photo, input, settings); };
  const Tensor got = pictures_tensor(input, settings, 1, prepare), &expected = expected_.tensors.at("input");
  ASSERT_EQ(got.type(), expected.type());
  for (int64_t i = 0; i < got.numel(); ++i)
    ASSERT_NEAR(got.as<float>()[i], expected.as<float>()[i], 1e-6) << i;
  ImageInput last = input;
  last.channels_last = true, last.dtype = DType::u8;
  const Tensor bytes = pictures_tensor(last, settings, 1, prepare);
  EXPECT_EQ(bytes.type(), (TensorType{DType::u8, {1, 28, 28, 3}}));
  EXPECT_NEAR((static_cast<float>(bytes.data()[4]) / 255 - 0.456f) / 0.224f, got.as<float>()[28 * 28 + 1],
              1e-6);
}

TEST_F(Pictures, ThatAreDamagedAreErrorsWithTheirName) {
  for (const char* name : {"photo.jpg", "progressive.jpg", "color.png", "palette.png"}) {
    const std::string whole = read_whole_file(pictures() / name);
    const fs::path copy = folder_ / name;
    for (const size_t size : {size_t{0}, size_t{9}, whole.size() / 3, whole.size() * 2 / 3}) {
      std::ofstream(copy, std::ios::binary) << whole.substr(0, size);
      EXPECT_NE(error_of([&] { read_picture(copy); }).find(copy.string()), std::string::npos) << size;
    }
    for (size_t at = 0; at < whole.size();
         at += 3) {  // any byte may be wrong, and nothing worse than an error comes of it
      std::string wrong = whole;
      wrong[at] = static_cast<char>(wrong[at] ^ 0x55);
      error_of([&] { decode_picture(wrong); });
    }
  }
  EXPECT_NE(error_of([&] { decode_picture("GIF89a"); }).find("no JPEG and no PNG"), std::string::npos);
  std::string large = read_whole_file(pictures() / "photo.jpg");
  const size_t frame = large.find("\xff\xc0");
  large.replace(frame + 5, 4, std::string("\xff\x00\xff\x00", 4));
  EXPECT_NE(error_of([&] { decode_picture(large); }).find("65280 pixels wide"), std::string::npos);
}

TEST_F(Pictures, TakeSettingsAsText) {
  const ImageSettings settings =
      parse_image_settings("--image", "size=32x64,resize=40,fit=pad,filter=bicubic,mean=0.5,std=0.2/0.3/0.4");
  EXPECT_EQ(to_text(settings), "size=32x64,fit=pad,filter=bicubic,resize=40,mean=0.5,std=0.2/0.3/0.4");
  for (const char* wrong : {"size=0", "size=1x2x3", "fit=round", "mean=1/2", "std=0", "color=1", "flip"})
    EXPECT_NE(error_of([&] { parse_image_settings("--image", wrong); }).find("--image"), std::string::npos)
        << wrong;
}

// A folder with two classes: dark pictures and bright ones.
void make_classes(const fs::path& root, const std::vector<std::string>& classes, int count) {
  const std::string dark = read_whole_file(pictures() / "photo.jpg"),
                    bright = read_whole_file(pictures() / "bilevel.png");
  for (size_t i = 0; i < classes.size(); ++i) {
    fs::create_directories(root / classes[i]);
    for (int k = 0; k < count; ++k)
      std::ofstream(root / classes[i] / fmt::format("{}.{}", k, i % 2 ? "png" : "jpg"), std::ios::binary)
          << (i % 2 ? bright : dark);
  }
}

TEST_F(Pictures, InFoldersOfClassesAreData) {
  const fs::path root = folder_ / "images";
  make_classes(root, {"b", "a"}, 5);
  fs::create_directories(root / ".hidden");
  ASSERT_TRUE(data::is_image_folder(root));
  EXPECT_FALSE(data::is_image_folder(root / "a"));
  data::ImageFolder folder = data::list_image_folder(root);
  EXPECT_EQ(folder.classes, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(folder.labels, (std::vector<int64_t>{0, 0, 0, 0, 0, 1, 1, 1, 1, 1}));
  const data::ImageBatches batches{.input = {.name = "x", .height = 8, .width = 8}, .target = "y"};
  const auto source = data::image_source(folder, batches, {.batch_size = 4, .seed = 3});
  const auto again = data::image_source(folder, batches, {.batch_size = 4, .seed = 3});
  EXPECT_EQ(source->batches_per_epoch(), 2);
  const NamedTensors first = source->batch(5), second = again->batch(5), other = source->batch(3);
  EXPECT_EQ(first.at("x").type(), (TensorType{DType::f32, {4, 3, 8, 8}}));
  EXPECT_EQ(first.at("x").to_doubles(), second.at("x").to_doubles());
  EXPECT_NE(first.at("x").to_doubles(), other.at("x").to_doubles());
  const auto all =
      data::image_source(folder, batches, {.batch_size = 4, .shuffle = false, .fill_last = true});
  EXPECT_EQ(all->batches_per_epoch(), 3);
  EXPECT_EQ(all->batch(2).at("y").to_doubles(), (std::vector<double>{1, 1, kIgnoredTarget, kIgnoredTarget}));
  data::number_classes(folder, {"c", "b", "a"});
  EXPECT_EQ(folder.labels[0], 2);
  EXPECT_NE(error_of([&] { data::number_classes(folder, {"c"}); }).find("'c'"), std::string::npos);
  std::ofstream(root / "b" / "7.png") << "no picture";
  folder = data::list_image_folder(root);
  EXPECT_EQ(data::leave_out_bad_pictures(folder).size(), 1u);
  EXPECT_EQ(folder.files.size(), 10u);
  fs::create_directories(root / "empty");
  EXPECT_NE(error_of([&] { data::list_image_folder(root); }).find("empty"), std::string::npos);
}

// A small classifier of pictures with the entry points of an imported program that has a loss.
std::unique_ptr<Model> small_classifier() {
  auto model = std::make_unique<Model>();
  const Scope root(*model, 1);
  const nn::Conv2d conv(root / "conv", 3, 4, {3}, {.conv = {.stride = {2}}});
  const nn::Linear head(root / "head", 4, 3);
  const auto network = [&](Value x) { return head(mean(relu(conv(x)), {2, 3})); };
  const Dim batch = symbol("batch");
  for (const char* entry : {"forward", "loss"}) {
    GraphBuilder g(*model, entry, Mode::kTrain);
    const Value logits = network(g.input("x", DType::f32, {batch, 3, 12, 12}));
    if (entry[0] == 'f')
      g.output("logits", logits);
    else
      g.output("loss", cross_entropy(logits, g.input("target", DType::i64, {batch})));
  }
  return model;
}

TEST_F(Pictures, TrainAndResumeToTheSameBits) {
  save_model(*small_classifier(), folder_ / "m.genesis");
  make_classes(folder_ / "images", {"bright", "dark"}, 6);
  jobs::TrainJob job{.model = (folder_ / "m.genesis").string(),
                     .data = {(folder_ / "images").string()},
                     .image = "min_area=0.5,mean=0.4",
                     .optimizer = "adamw,lr=3e-2",
                     .steps = 12};
  job.source.batch_size = 4;
  job.evaluation_data = job.data;
  job.quiet = true;
  job.output = (folder_ / "whole.genesis").string();
  const jobs::TrainResult whole = jobs::train(job);
  EXPECT_LT(whole.evaluation_loss, 0.7);
  job.checkpoint = (folder_ / "run").string();
  job.output = (folder_ / "resumed.genesis").string();
  int asked = 0;
  job.should_stop = [&] { return ++asked == 5 ? 1 : 0; };
  EXPECT_EQ(jobs::train(job).last.step, 5);
  job.should_stop = {};
  job.resume = true;
  EXPECT_EQ(jobs::train(job).last.loss, whole.last.loss);
  const auto trained = load_model(job.output);
  EXPECT_EQ(labels_of(*trained), (std::vector<std::string>{"bright", "dark"}));
  EXPECT_EQ(image_settings_of(*trained).mean, std::vector<double>{0.4});
  job.resume = false, job.checkpoint = "";
  make_classes(folder_ / "images", {"more", "and"}, 4);
  EXPECT_NE(error_of([&] { jobs::train(job); }).find("4 classes"), std::string::npos);
  job.text.holdout = 0.1;
  EXPECT_NE(error_of([&] { jobs::train(job); }).find("--holdout"), std::string::npos);
}

TEST_F(Pictures, AreInputsByTheirNames) {
  const auto model = small_classifier();
  const Graph& entry = std::as_const(*model).entry("loss");
  const std::string photo = (pictures() / "photo.jpg").string();
  std::vector<std::string> requests = {"x=" + photo + "," + photo, "target=zeros"};
  const NamedTensors taken = take_picture_inputs(entry, {}, requests);
  EXPECT_EQ(requests, (std::vector<std::string>{"target=zeros"}));
  EXPECT_EQ(taken.at("x").type(), (TensorType{DType::f32, {2, 3, 12, 12}}));
  requests = {"target=" + photo};
  EXPECT_NE(error_of([&] { take_picture_inputs(entry, {}, requests); }).find("takes no pictures"),
            std::string::npos);
  const auto best = best_classes({0.0, 2.0, 1.0}, 2);
  EXPECT_EQ(best[0].index, 1);
  EXPECT_NEAR(best[0].probability, 0.6652, 1e-4);
  EXPECT_EQ(best_classes({0.25, 0.75}, 5)[0].probability, 0.75);
}

}  // namespace
}  // namespace genesis::images

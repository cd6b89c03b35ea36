// Tests a paged cache whose rows share less memory than their longest texts need: requests have the same tokens and
// log-probabilities as alone, wait for memory in the order of their arrival, and never take more than there is.
#include "executor/generation/cache_budget.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <set>

#include "executor/generation/engine.h"
#include "executor/generation/prefix_store.h"
#include "executor/runtime/aligned_memory.h"
#include "executor/runtime/mapped_rows.h"
#include "models/generation/generator.h"
#include "models/zoo.h"
#include "passes/core/quantized_cache.h"
#include "schema/graph/caches.h"

namespace genesis::generation {
namespace {

constexpr int64_t kPositions = 512, kRows = 6;

std::shared_ptr<const Model> small(int64_t rows) {
  const models::Settings settings = {{"vocab_size", "61"},         {"hidden_size", "32"},
                                     {"intermediate_size", "48"},  {"num_hidden_layers", "2"},
                                     {"num_attention_heads", "4"}, {"num_key_value_heads", "2"},
                                     {"head_dim", "16"},           {"max_position_embeddings", "512"},
                                     {"initializer_range", "0.3"}};
  return models::with_cache(*models::make_model("qwen2", settings, 3), rows, kPositions);
}

std::shared_ptr<const Model> in_eight_bits(int64_t rows) {
  return passes::with_quantized_cache(*small(rows));
}

struct Served {
  Session session;
  Engine engine;
  Served(const std::shared_ptr<const Model>& model, const EngineOptions& options)
      : session(text::open_for_generation(model, {.threads = 2})), engine(session, options) {}
};

EngineOptions options_with(int64_t cache_bytes) {
  return {.prefill_chunk = 16, .step_tokens = 16, .reuse_prefixes = true, .cache_bytes = cache_bytes};
}

// Maps pages of one file as a GPU's driver maps pages of its memory: several addresses may see one page.
class FilePages final : public PageMapper {
 public:
  FilePages() : file_(::memfd_create("pages", 0)) {}
  ~FilePages() override {
    EXPECT_TRUE(made_.empty() && mapped_ == 0) << made_.size() << " pages, " << mapped_ << " mapped";
    ::close(file_);
  }
  int64_t page_bytes() const override { return 2 * memory_page_bytes(); }
  Page make_page() override {
    made_.insert(++last_);
    EXPECT_EQ(::ftruncate(file_, static_cast<off_t>(last_ + 1) * page_bytes()), 0);
    return last_;
  }
  void free_page(Page page) override { EXPECT_EQ(made_.erase(page), 1u); }
  std::byte* reserve(int64_t bytes) override {
    return static_cast<std::byte*>(
        ::mmap(nullptr, static_cast<size_t>(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  void release(std::byte* at, int64_t bytes) override { ::munmap(at, static_cast<size_t>(bytes)); }
  void map(std::byte* at, std::span<const Page> pages) override {
    for (size_t i = 0; i < pages.size(); ++i) {
      if (fails_in_ > 0 && --fails_in_ == 0) {
        unmap(at, static_cast<int64_t>(i));
        fail("a page cannot be mapped");
      }
      EXPECT_TRUE(made_.contains(pages[i]));
      place(at + static_cast<int64_t>(i) * page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file_,
            static_cast<off_t>(pages[i]) * page_bytes());
      ++mapped_;
    }
  }
  void unmap(std::byte* at, int64_t pages) override {
    for (int64_t i = 0; i < pages; ++i)
      place(at + i * page_bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mapped_ -= pages;
  }
  void clear(std::byte* at, int64_t bytes) override { std::memset(at, 0, static_cast<size_t>(bytes)); }
  void copy(std::byte* to, const std::byte* from, int64_t bytes) override {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
  void wait() override {}
  size_t made() const { return made_.size(); }
  int64_t mapped() const { return mapped_; }
  void fail_in(int64_t pages) { fails_in_ = pages; }  // the first of them: 1

 private:
  void place(std::byte* at, int access, int kind, int file, off_t from) const {
    EXPECT_EQ(::mmap(at, static_cast<size_t>(page_bytes()), access, kind | MAP_FIXED, file, from), at);
  }

  int file_;
  Page last_ = 0;
  std::set<Page> made_;
  int64_t mapped_ = 0, fails_in_ = 0;
};

const int64_t kMapped = 2 * memory_page_bytes();

// Returns the memory of all rows, idle but for one with the longest text and `texts` others of 64 positions.
int64_t bytes_for(const Model& model, int64_t texts, int64_t pages = memory_page_bytes()) {
  const auto bytes = [&](int64_t positions) { return paged_row_bytes(model, positions, kPositions, pages); };
  return kRows * bytes(0) + (bytes(kPositions) - bytes(0)) + texts * (bytes(64) - bytes(0));
}

Request request_of(int64_t i) {
  Request request = {{}, {.max_tokens = 1 + i % 11, .temperature = 1.2, .seed = static_cast<uint64_t>(i)}};
  // Two beginnings that prompts share, and one long text in nine.
  const int64_t length = i % 9 == 4 ? 300 : 20 + i * 7 % 40;
  for (int64_t at = 0; at < length; ++at)
    request.prompt.push_back((at * 17 + (at < 20 ? i % 2 : i) * 29 + 5) % 61);
  if (i % 5 == 2) request.options.logprobs = true, request.options.top_logprobs = 2;
  return request;
}

std::vector<Result> alone(const std::shared_ptr<const Model>& model, int64_t count) {
  Served one(model, options_with(0));
  std::vector<Result> results;
  for (int64_t i = 0; i < count; ++i) {
    const RequestId id = one.engine.submit(request_of(i));
    while (one.engine.step()) {
    }
    results.push_back(*one.engine.poll(id).result);
  }
  return results;
}

void expect_equal(const Result& result, const Result& expected, int64_t i) {
  EXPECT_FALSE(result.error) << "request " << i;
  EXPECT_EQ(result.tokens, expected.tokens) << "request " << i;
  ASSERT_EQ(result.logprobs.size(), expected.logprobs.size());
  for (size_t at = 0; at < expected.logprobs.size(); ++at)
    EXPECT_EQ(result.logprobs[at].logprob, expected.logprobs[at].logprob) << "request " << i;
}

void check_same_bytes(const std::shared_ptr<const Model>& one_row, const std::shared_ptr<const Model>& rows,
                      bool is_mapped = false) {
  constexpr int64_t kRequests = 36;
  const std::vector<Result> expected = alone(one_row, kRequests);
  for (const int64_t texts : {0, 2, 5}) {
    const int64_t bytes = is_mapped ? bytes_for(*rows, texts, kMapped) : bytes_for(*rows, texts);
    EngineOptions options = options_with(bytes);
    if (is_mapped) map_pages_of_cpu_by(std::make_shared<FilePages>());
    Served served(rows, options);
    map_pages_of_cpu_by(nullptr);
    std::vector<RequestId> ids;
    int64_t most = 0;
    bool goes_on = true;
    for (int64_t i = 0; goes_on || i < kRequests; ++i) {
      if (i < kRequests) ids.push_back(served.engine.submit(request_of(i)));
      goes_on = served.engine.step();
      const Load load = served.engine.load();
      most = std::max(most, load.reading + load.decoding);
      EXPECT_LE(load.cache_bytes, bytes);
    }
    // Rows of the longest text would have room for fewer.
    if (texts == 5) {
      EXPECT_EQ(most, kRows);
    }
    for (int64_t i = 0; i < kRequests; ++i)
      expect_equal(*served.engine.poll(ids[static_cast<size_t>(i)]).result, expected[static_cast<size_t>(i)],
                   i);
  }
}

TEST(CacheBudget, SameBytesInLittleMemory) { check_same_bytes(small(1), small(kRows)); }
TEST(CacheBudget, SameBytesInEightBits) { check_same_bytes(in_eight_bits(1), in_eight_bits(kRows)); }
TEST(CacheBudget, SameBytesInMappedPages) { check_same_bytes(small(1), small(kRows), true); }
TEST(CacheBudget, SameBytesInMappedPagesOfEightBits) {
  check_same_bytes(in_eight_bits(1), in_eight_bits(kRows), true);
}

TEST(CacheBudget, MappedPagesAreOfTheirRowsAlone) {
  const auto pages = std::make_shared<FilePages>();
  const int64_t page = pages->page_bytes(), row = 4 * page;
  MappedRows rows(pages, {{DType::f32, row, page / 8}, {DType::f32, row, page / 16}}, 3, 9);
  EXPECT_EQ(pages->made(), 10u);  // and the common one
  rows.set(0, 32);                // 4 and 2 pages
  const auto value = [&](size_t cache, int64_t at) -> std::byte& { return rows.at(cache)[at]; };
  for (int64_t i = 0; i < row; ++i) value(0, i) = std::byte{1}, value(0, row + i) = std::byte{2};
  EXPECT_EQ(value(0, row - 1), std::byte{1});
  EXPECT_EQ(value(0, 2 * row), std::byte{2});  // rows without pages see the common one
  EXPECT_EQ(value(1, 3 * page), std::byte{2});
  rows.set(1, 9);  // 2 and 1
  EXPECT_EQ(value(0, row), std::byte{0});
  EXPECT_EQ(rows.used_pages(), 9);
  EXPECT_THROW(rows.set(2, 8), Error);
  rows.set(2, 0);
  rows.set(0, 16);  // gives two and one up, and keeps them until another row needs some
  EXPECT_EQ(value(0, 2 * page), std::byte{1});
  rows.set(2, 8);  // 1 and 1
  EXPECT_EQ(value(0, 2 * page), std::byte{2});
  EXPECT_EQ(value(0, 2 * page - 1), std::byte{1});
  EXPECT_EQ(value(0, 2 * row), std::byte{0});
}

TEST(CacheBudget, EveryAddressKeepsMemoryIfAPageCannotBeMapped) {
  const auto make = [](const std::shared_ptr<FilePages>& pages) {
    const int64_t page = pages->page_bytes();
    return std::make_unique<MappedRows>(
        pages,
        std::vector<MappedRows::Cache>{{DType::f32, 4 * page, page / 8}, {DType::f32, 4 * page, page / 16}},
        3, 9);
  };
  for (int64_t k = 1; k <= 24; ++k) {
    const auto pages = std::make_shared<FilePages>();
    pages->fail_in(k);
    EXPECT_THROW(make(pages), Error) << k;
  }
  for (int64_t k = 1; k <= 12; ++k) {
    const auto pages = std::make_shared<FilePages>();
    const auto rows = make(pages);
    const int64_t row = 4 * pages->page_bytes();
    rows->set(0, 32), rows->set(1, 9), rows->set(0, 0);
    rows->at(0)[row] = std::byte{5};
    pages->fail_in(k);
    EXPECT_THROW(rows->set(2, 32), Error) << k;  // takes six pages of row 0
    EXPECT_EQ(pages->mapped(), 24) << k;
    EXPECT_EQ(rows->used_pages(), 3) << k;
    std::memset(rows->at(0) + 2 * row, 1, static_cast<size_t>(row));
    rows->set(2, 32);
    EXPECT_EQ(rows->at(0)[3 * row - 1], std::byte{k > 10 ? uint8_t{1} : uint8_t{0}});  // it kept those
    EXPECT_EQ(rows->at(0)[row], std::byte{5}) << k;
  }
}

TEST(CacheBudget, ARequestThatGetsNoPagesEndsAlone) {
  const std::vector<Result> expected = alone(small(1), 2);
  const auto model = small(kRows);
  const auto pages = std::make_shared<FilePages>();
  map_pages_of_cpu_by(pages);
  Served served(model, options_with(bytes_for(*model, 2, kMapped)));
  map_pages_of_cpu_by(nullptr);
  pages->fail_in(1);
  const RequestId first = served.engine.submit(request_of(0)), second = served.engine.submit(request_of(1));
  while (served.engine.step()) {
  }
  EXPECT_TRUE(served.engine.poll(first).result->error);
  expect_equal(*served.engine.poll(second).result, expected[1], 1);
  const RequestId again = served.engine.submit(request_of(0));
  while (served.engine.step()) {
  }
  expect_equal(*served.engine.poll(again).result, expected[0], 0);
}

TEST(CacheBudget, RowsOfWholePages) {
  const auto model = small(1);  // 128 bytes of keys a token
  const int64_t page = 65536, tokens = 512;
  EXPECT_EQ(whole_page_positions(*model, 600, page), 2 * tokens);
  EXPECT_EQ(whole_page_positions(*model, 256, page), tokens);
  EXPECT_EQ(whole_page_positions(*model, 255, page), 255);  // no more than twice as many
  EXPECT_EQ(whole_page_positions(*model, 600, memory_page_bytes()), 600);
  EXPECT_EQ(paged_row_bytes(*model, tokens + 1, 4 * tokens, page), 4 * 2 * page);
  EXPECT_EQ(paged_row_bytes(*model, 0, 4 * tokens, page), 0);
  EXPECT_EQ(paged_row_bytes(*model, 0, 100, page), 4 * 100 * 128);  // no whole pages: all positions
}

TEST(CacheBudget, ShortRequestsDoNotKeepALongOneWaiting) {
  const auto model = small(kRows);
  Served served(model, options_with(bytes_for(*model, 0)));
  std::vector<RequestId> order;
  const auto submit = [&](int64_t length) {
    served.engine.submit({.prompt = std::vector<int64_t>(static_cast<size_t>(length), 7),
                          .options = {.max_tokens = 3},
                          .on_result = [&](const Result& result) { order.push_back(result.request); }});
  };
  submit(200);
  submit(480);  // needs nearly all memory, so it waits for the first one
  for (int i = 0; i < 4; ++i) submit(20);
  while (served.engine.step()) {
  }
  ASSERT_EQ(order.size(), 6u);
  EXPECT_LT(order[0], order[1]);
  EXPECT_LT(order[1], *std::min_element(order.begin() + 2, order.end()));
}

// More texts than rows come back in turn. They are read again, or not, with the same tokens and log-probabilities.
TEST(PrefixStore, TextsThatComeBackAreNotReadAgain) {
  constexpr int64_t kTexts = 9;
  const auto model = small(3);
  const std::vector<Result> expected = alone(small(1), kTexts);
  Session measured = text::open_for_generation(model, {});
  const int64_t unit = CachePages(measured).saved_bytes(16) + 16 * 8;
  for (const int64_t units : {0, 9, 1000})
    for (const bool is_paged : {false, true}) {
      EngineOptions options = options_with(is_paged ? bytes_for(*model, 0) : 0);
      options.run_ahead = is_paged;  // steps are under way when texts end
      options.prefix_bytes = units * unit;
      Served served(model, options);
      std::vector<int64_t> cached(3);
      for (size_t round = 0; round < 3; ++round)
        for (int64_t i = 0; i < kTexts; ++i) {
          Request request = request_of(i);
          request.group = round == 2 ? 1 : 0;
          const RequestId id = served.engine.submit(std::move(request));
          while (served.engine.step()) {
          }
          const Result result = *served.engine.poll(id).result;
          expect_equal(result, expected[static_cast<size_t>(i)], i);
          cached[round] += result.cached;
          EXPECT_LE(served.engine.load().prefix_bytes, options.prefix_bytes);
        }
      EXPECT_EQ(cached[2], cached[0]);  // another group finds nothing
      if (units == 1000) {
        EXPECT_GT(cached[1], cached[0] + 300);
      }
    }
}

// Caches move when they grow and when weights are stored. Another row still gets what was kept.
TEST(PrefixStore, FindsCachesThatHaveMoved) {
  constexpr int64_t kUnit = 16, kSize = 2 * kUnit;
  Session session = text::open_for_generation(models::with_cache(*small(1), 3, 64), {.threads = 2});
  PrefixStore store(session, 1 << 20, kUnit);
  Text text;
  for (int64_t i = 0; i <= kSize; ++i) text.tokens.push_back(i);
  text.cached = text.size(), text.shareable = kSize;
  std::map<std::string, std::vector<float>> held;  // by cache: the first row
  for (const State& state : session.model().states()) {
    if (!cache_layout(state)) continue;
    const Tensor values = Tensor::rand(state.type.shape.sizes(), held.size());
    session.set_state(state.name, values);
    const auto begin = values.as<float>().begin();
    held[state.name].assign(begin, begin + kSize * state.type.numel() / (3 * 64));
  }
  store.save(text, 0);
  session.grow_cache(kPositions);
  Text other;
  store.load(other, 2, text.tokens, kSize);
  EXPECT_EQ(other.cached, kSize);
  for (const auto& [name, values] : held) {
    const Tensor now = session.state(name);
    const auto row = now.as<float>().begin() + 2 * now.type().numel() / 3;
    EXPECT_TRUE(std::equal(values.begin(), values.end(), row)) << name;
  }
}

TEST(PrefixStore, AnEngineWhoseCacheGrowsStillFindsTexts) {
  constexpr int64_t kTexts = 4;
  const std::vector<Result> expected = alone(small(1), kTexts);
  EngineOptions options = options_with(0);
  options.prefix_bytes = 1 << 20;
  Served served(models::with_cache(*small(1), 1, 64), options);  // a text takes the row of the one before it
  std::vector<int64_t> cached(2);
  for (int64_t& of_round : cached) {
    for (int64_t i = 0; i < kTexts; ++i) {
      const RequestId id = served.engine.submit(request_of(i));
      while (served.engine.step()) {
      }
      const Result result = *served.engine.poll(id).result;
      expect_equal(result, expected[static_cast<size_t>(i)], i);
      of_round += result.cached;
    }
    served.engine.grow_cache(kPositions);
  }
  EXPECT_GT(cached[1], cached[0]);
}

TEST(CacheBudget, RefusesMemoryForLessThanOneText) {
  const auto model = small(kRows);
  try {
    Served served(model, options_with(bytes_for(*model, 0) - 1));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("no room for one text of 512 tokens beside 5 other rows"),
              std::string::npos)
        << error.message();
  }
}

TEST(CacheBudget, ClearedPagesAreGivenBack) {
  const int64_t page = memory_page_bytes(), pages = 64;
  const AlignedMemory memory = allocate_memory(pages * page);
  use_small_pages(memory.get(), pages * page);
  std::memset(memory.get(), 1, static_cast<size_t>(pages * page));
  clear_pages(memory.get() + 10 * page + 5, 20 * page);
  std::vector<unsigned char> is_resident(static_cast<size_t>(pages));
  ASSERT_EQ(mincore(memory.get(), static_cast<size_t>(pages * page), is_resident.data()), 0);
  EXPECT_EQ(std::count_if(is_resident.begin(), is_resident.end(), [](unsigned char one) { return one & 1; }),
            pages - 19);
  for (int64_t at = 0; at < pages * page; ++at) {
    const bool is_cleared = at >= 10 * page + 5 && at < 30 * page + 5;
    ASSERT_EQ(memory[static_cast<size_t>(at)], std::byte{is_cleared ? uint8_t{0} : uint8_t{1}}) << at;
  }
}

}  // namespace
}  // namespace genesis::generation

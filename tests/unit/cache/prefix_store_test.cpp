#include "cache/prefix_store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cache/anchor_image.h"
#include "stored_prefixes.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace fathom {
namespace {

std::vector<std::string> segments(const test::TempDir& dir) {
  std::vector<std::string> paths;
  for (const SegmentFile& file : list_segments(dir.path().string())) {
    paths.push_back(file.path);
  }
  return paths;
}

void change_byte(const std::string& path, uint64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const char byte = static_cast<char>(file.get() ^ 0x10);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(byte);
  ASSERT_TRUE(file.good());
}

TEST(PrefixStore, ANewProcessGoesOnWhereTheOldOneEnded) {
  const test::TempDir dir;
  const Tokens tokens = conversation(900, 1);
  {
    StoredPrefixes first(store_options(dir.path().string()));
    EXPECT_EQ(first.run(Tokens(tokens.begin(), tokens.begin() + 700), {128, 384, 500}), 0);
  }
  StoredPrefixes second(store_options(dir.path().string()));
  EXPECT_EQ(second.disk().anchors, 4U);
  EXPECT_EQ(second.disk().blocks, 5U);
  EXPECT_EQ(second.pool().bytes_in_use(), 0U) << "nothing is read before it is needed";
  EXPECT_EQ(second.run(tokens), 700);
  EXPECT_EQ(second.disk().loads, 1U);

  Tokens edited(tokens.begin(), tokens.begin() + 450);
  edited.push_back(1001);
  edited.push_back(5);
  EXPECT_EQ(second.run(edited), 384) << "its blocks are those of the other anchor";
  second.prefixes().flush();
  second.prefixes().clear();
  EXPECT_EQ(second.pool().bytes_in_use(), 0U);
  edited.push_back(9);
  EXPECT_EQ(second.run(edited), 452) << "what was evicted is read again";
}

TEST(PrefixStore, WritesOnlyWhatIsNew) {
  const test::TempDir dir;
  StoredPrefixes process(store_options(dir.path().string()));
  const CacheLayout& layout = process.pool().layout();
  constexpr size_t kHeader = sizeof(RecordHeader);
  const size_t block = kHeader + kBlock * sizeof(TokenId) + packed_block_bytes(layout, kBlock);
  const auto anchor = [&](int position) {
    const int tail = position % kBlock;
    return kHeader + static_cast<size_t>(tail) * sizeof(TokenId) + packed_block_bytes(layout, tail) +
           anchor_image_bytes(layout, position);
  };
  const Tokens tokens = conversation(1500, 2);
  const auto turn = [&](int end) {
    process.run(Tokens(tokens.begin(), tokens.begin() + end));
    process.prefixes().flush();
    return process.disk().bytes_written;
  };
  EXPECT_EQ(turn(1000), 7 * block + anchor(1000));
  EXPECT_EQ(turn(1100), 8 * block + anchor(1000) + anchor(1100));
  EXPECT_EQ(turn(1102), 8 * block + anchor(1000) + anchor(1100)) << "two tokens are not worth an image";
  EXPECT_EQ(turn(1300), 10 * block + anchor(1000) + anchor(1100) + anchor(1300));
  EXPECT_EQ(turn(1300), 10 * block + anchor(1000) + anchor(1100) + anchor(1300));
}

TEST(PrefixStore, DamageCostsAComputationAndNothingElse) {
  const Tokens tokens = conversation(700, 3);
  uint64_t size = 0;
  {
    const test::TempDir dir;
    StoredPrefixes(store_options(dir.path().string())).run(tokens, {300, 550});
    size = std::filesystem::file_size(segments(dir).at(0));
  }
  std::mt19937 random(5);
  int hits = 0;
  for (int i = 0; i < 60; ++i) {
    const test::TempDir dir;
    { StoredPrefixes(store_options(dir.path().string())).run(tokens, {300, 550}); }
    const std::string path = segments(dir).at(0);
    const uint64_t at = random() % size;
    if (i % 2 == 0) {
      change_byte(path, at);
    } else {
      std::filesystem::resize_file(path, at);
    }
    SCOPED_TRACE(testing::Message() << (i % 2 == 0 ? "changed" : "cut") << " at byte " << at << " of " << size);
    StoredPrefixes process(store_options(dir.path().string()));
    hits += process.run(tokens, {300, 550}) > 0 ? 1 : 0;
    hits += process.run(tokens) > 0 ? 1 : 0;
    ASSERT_FALSE(testing::Test::HasFatalFailure());
  }
  EXPECT_GT(hits, 80);
}

TEST(PrefixStore, WhatWasDamagedIsWrittenAgain) {
  const test::TempDir dir;
  const Tokens tokens = conversation(402, 4);
  { StoredPrefixes(store_options(dir.path().string())).run(Tokens(tokens.begin(), tokens.begin() + 400)); }
  const ScannedSegment before = scan_segment(segments(dir).at(0));
  change_byte(segments(dir).at(0), before.records.at(1).payload_offset);
  {
    StoredPrefixes process(store_options(dir.path().string()));
    EXPECT_EQ(process.run(tokens), 0);
    EXPECT_EQ(process.disk().failed_loads, 1U);
  }
  StoredPrefixes process(store_options(dir.path().string()));
  Tokens longer = tokens;
  longer.push_back(4);
  EXPECT_EQ(process.run(longer), 402);
  EXPECT_EQ(process.disk().failed_loads, 0U);
}

TEST(PrefixStore, ForeignFilesAreIgnoredAndStay) {
  const test::TempDir dir;
  const Tokens tokens = conversation(300, 6);
  PrefixStoreOptions other = store_options(dir.path().string());
  other.identity.fingerprint.fill(std::byte{9});
  { StoredPrefixes(other).run(tokens); }
  { StoredPrefixes(store_options(dir.path().string())).run(conversation(300, 7)); }
  const std::string folder = key_text(store_options("").identity.fingerprint);
  dir.write(folder + "/notes.seg",
            "These are my notes, and they are longer than the header of any segment that was ever "
            "written by anybody. They must stay.");
  dir.write(folder + "/empty.seg", "");
  // A segment of another model in the wrong place.
  std::filesystem::copy_file(segments(dir).back(), dir.file(folder + "/copy.seg"));

  StoredPrefixes process(store_options(dir.path().string()));
  EXPECT_EQ(process.disk().anchors, 1U);
  EXPECT_EQ(process.run(tokens), 0);
  prune_segments(dir.path().string(), 0);
  EXPECT_TRUE(std::filesystem::exists(dir.file(folder + "/notes.seg")));
  EXPECT_TRUE(std::filesystem::exists(dir.file(folder + "/empty.seg")));
  EXPECT_FALSE(std::filesystem::exists(dir.file(folder + "/copy.seg")));
}

TEST(PrefixStore, RecordsOfAnotherLayoutAreIgnored) {
  const test::TempDir dir;
  PrefixStoreOptions options = store_options(dir.path().string());
  {
    std::filesystem::create_directories(dir.path() / key_text(options.identity.fingerprint));
    SegmentWriter writer((dir.path() / key_text(options.identity.fingerprint) / "a.seg").string(), options.identity);
    RecordHeader header;
    header.kind = RecordKind::kAnchor;
    header.parent = options.identity.fingerprint;
    header.position = 3;
    const Tokens tokens{1, 2, 3};
    header.key = chain_key(header.parent, tokens);
    writer.append(header, tokens, std::vector<std::byte>(10));
  }
  StoredPrefixes process(options);
  EXPECT_EQ(process.disk().anchors, 0U);
  EXPECT_EQ(process.run({1, 2, 3, 4}), 0);
}

TEST(PrefixStore, StaysWithinItsBudgetAndKeepsWhatWasUsedLast) {
  const test::TempDir dir;
  PrefixStoreOptions options = store_options(dir.path().string());
  options.budget_bytes = 50000;
  const Tokens first = conversation(300, 1);
  {
    StoredPrefixes process(options);
    for (uint32_t salt = 1; salt < 40; ++salt) {
      process.run(conversation(300, salt));
      process.prefixes().flush();
    }
    EXPECT_GT(process.disk().bytes_written, 2 * options.budget_bytes) << "or the test is too small";
  }
  uint64_t total = 0;
  for (const SegmentFile& file : list_segments(dir.path().string())) {
    total += file.bytes;
  }
  EXPECT_LE(total, options.budget_bytes);
  EXPECT_GT(total, options.budget_bytes / 2);
  StoredPrefixes process(options);
  Tokens newest = conversation(300, 39);
  newest.push_back(1);
  EXPECT_EQ(process.run(newest), 300);
  EXPECT_EQ(process.run(conversation(301, 1)), 0);
}

TEST(PrefixStore, ProcessesOnOneDirectoryLeaveEachOtherAlone) {
  const test::TempDir dir;
  const std::string path = dir.path().string();
  {
    StoredPrefixes a(store_options(path));
    StoredPrefixes b(store_options(path));
    a.run(conversation(300, 1));
    b.run(conversation(300, 2));
    a.prefixes().flush();
    b.prefixes().flush();
    EXPECT_EQ(prune_segments(path, 0).size(), 0U) << "both are being written";
    a.run(conversation(400, 1));
    b.run(conversation(400, 1));
  }
  StoredPrefixes c(store_options(path));
  EXPECT_EQ(c.run(conversation(401, 1)), 400);
  EXPECT_EQ(c.run(conversation(301, 2)), 300);
}

TEST(PrefixStore, WhatSomebodyElseRemovesIsForgotten) {
  const test::TempDir dir;
  const std::string path = dir.path().string();
  { StoredPrefixes(store_options(path)).run(conversation(300, 1)); }
  StoredPrefixes process(store_options(path));
  EXPECT_EQ(process.disk().anchors, 1U);
  EXPECT_EQ(prune_segments(path, 0).size(), 1U);
  EXPECT_EQ(process.run(conversation(301, 1)), 0);
  EXPECT_EQ(process.disk().failed_loads, 1U);
  process.prefixes().flush();
  EXPECT_EQ(StoredPrefixes(store_options(path)).run(conversation(302, 1)), 301) << "and was written again";
}

// A file that may not grow stands for a disk that is full.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_ = {};
};

TEST(PrefixStore, AFullDiskEndsTheWritingOnly) {
  const test::TempDir dir;
  const Tokens tokens = conversation(900, 8);
  {
    StoredPrefixes process(store_options(dir.path().string()));
    process.run(Tokens(tokens.begin(), tokens.begin() + 300));
    process.prefixes().flush();
    const FileSizeLimit full(process.disk().bytes_written + 3000);
    process.run(tokens);
    process.prefixes().flush();
    EXPECT_FALSE(process.disk().writing);
    Tokens longer = tokens;
    longer.push_back(1);
    EXPECT_EQ(process.run(longer), 900) << "memory still has it";
    process.run(conversation(200, 9));
    process.prefixes().flush();
    process.prefixes().clear();
    EXPECT_EQ(process.run(conversation(301, 8)), 300) << "what is on disk can be read";
  }
  StoredPrefixes process(store_options(dir.path().string()));
  EXPECT_EQ(process.run(tokens), 300);
}

TEST(PrefixStore, SkipsAnchorsWhileTooMuchWaits) {
  const test::TempDir dir;
  PrefixStoreOptions options = store_options(dir.path().string());
  options.max_queued_bytes = 0;
  StoredPrefixes process(options);
  process.run(conversation(600, 1), {100, 200, 300, 400, 500});
  process.prefixes().flush();
  EXPECT_GE(process.disk().anchors, 1U);
  EXPECT_EQ(process.disk().anchors + process.disk().skipped_anchors, 6U);
}

TEST(PrefixStore, SaysWhyItCannotBegin) {
  const test::TempDir dir;
  dir.write("file", "");
  EXPECT_ERROR(StoredPrefixes(store_options(dir.file("file"))), ErrorCode::kIo, "kv-dir: cannot make ");
}

}  // namespace
}  // namespace fathom

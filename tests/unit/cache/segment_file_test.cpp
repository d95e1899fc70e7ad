#include "cache/segment_file.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace fathom {
namespace {

using Tokens = std::vector<TokenId>;
using Bytes = std::vector<std::byte>;

SegmentIdentity identity() {
  SegmentIdentity id;
  id.fingerprint.fill(std::byte{3});
  id.label = "a model";
  return id;
}

RecordHeader header_of(RecordKind kind, const PrefixKey& parent, const Tokens& tokens, int position) {
  RecordHeader header;
  header.kind = kind;
  header.parent = parent;
  header.key = chain_key(parent, tokens);
  header.position = position;
  return header;
}

std::string text_at(const std::string& path) { return scan_segment(path).problem; }

TEST(ChainKey, DependsOnParentAndTokens) {
  const PrefixKey a = chain_key({}, Tokens{1, 2});
  EXPECT_NE(a, chain_key({}, Tokens{1, 3}));
  EXPECT_NE(a, chain_key(a, Tokens{1, 2}));
  PrefixKey second_half = {};
  second_half[15] = std::byte{1};
  EXPECT_NE(a, chain_key(second_half, Tokens{1, 2}));
  EXPECT_EQ(key_text(PrefixKey{std::byte{0x0F}, std::byte{0xA0}}), "0fa0" + std::string(28, '0'));
}

TEST(SegmentFile, GivesBackWhatWasAppended) {
  const test::TempDir dir;
  const std::string path = dir.file("a.seg");
  const Tokens tokens{1, 2, 3};
  const Bytes payload(1000, std::byte{0x5A});
  uint64_t offset = 0;
  {
    SegmentWriter writer(path, identity());
    RecordHeader first = header_of(RecordKind::kBlock, identity().fingerprint, tokens, 3);
    writer.append(first, tokens, payload);
    RecordHeader second = header_of(RecordKind::kAnchor, first.key, {}, 3);
    offset = writer.append(second, {}, Bytes(10, std::byte{1}));
    EXPECT_EQ(writer.size(), std::filesystem::file_size(path));
  }
  const ScannedSegment segment = scan_segment(path);
  EXPECT_EQ(segment.problem, "");
  EXPECT_EQ(segment.identity.fingerprint, identity().fingerprint);
  EXPECT_EQ(segment.identity.label, "a model");
  EXPECT_EQ(segment.good_bytes, segment.file_bytes);
  ASSERT_EQ(segment.records.size(), 2U);
  EXPECT_EQ(segment.records[0].tokens, tokens);
  EXPECT_EQ(segment.records[0].header.payload_bytes, 1000U);
  EXPECT_EQ(segment.records[1].header.parent, segment.records[0].header.key);
  EXPECT_EQ(segment.records[1].payload_offset, offset);

  const SegmentReader reader(path);
  Bytes read(1000);
  reader.read(segment.records[0].payload_offset, segment.records[0].header.payload_hash, read);
  EXPECT_EQ(read, payload);
  EXPECT_ERROR(reader.read(segment.records[0].payload_offset, 1, read), ErrorCode::kIo, "is damaged");
}

TEST(SegmentFile, SaysWhatIsWrongWithAFile) {
  const test::TempDir dir;
  EXPECT_EQ(text_at(dir.file("none.seg")), "cannot open: No such file or directory");
  EXPECT_EQ(text_at(dir.write("short.seg", "FATHOMKV")), "too short for a segment");
  EXPECT_EQ(text_at(dir.write("foreign.seg", std::string(200, 'x'))), "not a segment of Fathom's disk cache");
  const std::string path = dir.file("a.seg");
  { const SegmentWriter writer(path, identity()); }
  std::string bytes(std::filesystem::file_size(path), '\0');
  std::ifstream(path, std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  std::string other = bytes;
  other[8] = 2;
  EXPECT_EQ(text_at(dir.write("version.seg", other)), "version 2, expected 1");
  other = bytes;
  other[20] = 9;
  EXPECT_EQ(text_at(dir.write("header.seg", other)), "the header is damaged");
  EXPECT_EQ(text_at(dir.write("tail.seg", bytes + "FREC")), "the record at byte 104 is incomplete");
  EXPECT_EQ(text_at(dir.write("noise.seg", bytes + std::string(100, 'x'))), "no record begins at byte 104");
}

TEST(SegmentFile, IsReadUpToTheFirstRecordThatIsNotWhole) {
  const test::TempDir dir;
  const std::string path = dir.file("a.seg");
  uint64_t first_end = 0;
  {
    SegmentWriter writer(path, identity());
    RecordHeader header = header_of(RecordKind::kBlock, {}, {7}, 1);
    writer.append(header, Tokens{7}, Bytes(50));
    first_end = writer.size();
    writer.append(header, Tokens{7}, Bytes(50));
  }
  const uint64_t end = std::filesystem::file_size(path);
  for (uint64_t size = end; size >= first_end; --size) {
    std::filesystem::resize_file(path, size);
    const ScannedSegment segment = scan_segment(path);
    ASSERT_EQ(segment.records.size(), size == end ? 2U : 1U);
    ASSERT_EQ(segment.good_bytes, size == end ? end : first_end);
    ASSERT_EQ(segment.problem.empty(), size == end || size == first_end);
  }
}

TEST(SegmentFile, DamagedTokensAreNoticedByTheScan) {
  const test::TempDir dir;
  const std::string path = dir.file("a.seg");
  {
    SegmentWriter writer(path, identity());
    RecordHeader header = header_of(RecordKind::kBlock, {}, {7, 8}, 2);
    writer.append(header, Tokens{7, 8}, Bytes(50));
  }
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(104 + 72).put(1);
  EXPECT_EQ(text_at(path), "the record at byte 104 is damaged");
}

TEST(SegmentFile, RefusesANameThatIsTaken) {
  const test::TempDir dir;
  dir.write("a.seg", "");
  EXPECT_ERROR(SegmentWriter(dir.file("a.seg"), identity()), ErrorCode::kIo, "cannot create ");
  EXPECT_ERROR(SegmentReader(dir.file("b.seg")), ErrorCode::kIo, "cannot open ");
}

TEST(PruneSegments, RemovesWhatWasNotUsedForLongest) {
  const test::TempDir dir;
  for (const char* name : {"a.seg", "b.seg", "c.seg"}) {
    SegmentWriter writer(dir.file(name), identity());
    RecordHeader header = header_of(RecordKind::kBlock, {}, {7}, 1);
    writer.append(header, Tokens{7}, Bytes(1000));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // file times are coarse
  SegmentReader(dir.file("a.seg")).touch();
  const uint64_t one = std::filesystem::file_size(dir.file("a.seg"));
  EXPECT_TRUE(prune_segments(dir.path().string(), 3 * one).empty());
  const std::vector<SegmentFile> removed = prune_segments(dir.path().string(), 3 * one - 1);
  ASSERT_EQ(removed.size(), 1U);
  EXPECT_EQ(removed[0].path, dir.file("b.seg"));
  const SegmentWriter busy(dir.file("d.seg"), identity());
  EXPECT_EQ(prune_segments(dir.path().string(), 0).size(), 2U);
  EXPECT_EQ(list_segments(dir.path().string()).size(), 1U) << "somebody is writing it";
  EXPECT_TRUE(list_segments(dir.file("nowhere")).empty());
}

}  // namespace
}  // namespace fathom

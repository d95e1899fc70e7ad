// The files of the disk cache. A segment is a header and records, only ever appended to by the one process that made
// it:
//
//   segment   magic, version, fingerprint of model and numerics, label, hash of all that
//   record    header (below), tokens, payload
//
// A record of a block holds the packed entries of one full block of positions, a record of an anchor the packed entries
// of the last block, begun but not full, and the image of the slot. Each names the record of the block before it, so a
// record says for which tokens from the beginning of the sequence it is. Headers with their tokens, and payloads, have
// hashes of their own: a scan reads no payload. What a killed process left half-written ends the segment.
// Numbers are little-endian.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"

namespace fathom {

using PrefixKey = std::array<std::byte, 16>;  // XXH3-128

// Names what follows `parent` with these bytes, or tokens. The first block follows the model's fingerprint.
[[nodiscard]] PrefixKey chain_key(const PrefixKey& parent, std::span<const std::byte> bytes);
[[nodiscard]] PrefixKey chain_key(const PrefixKey& parent, std::span<const TokenId> tokens);
[[nodiscard]] std::string key_text(const PrefixKey& key);  // hexadecimal

enum class RecordKind : uint32_t { kBlock = 1, kAnchor = 2 };

struct RecordHeader {
  uint32_t magic = 0;
  RecordKind kind = RecordKind::kBlock;
  PrefixKey key = {};
  PrefixKey parent = {};
  int32_t position = 0;  // tokens from the beginning of the sequence to the end of the record
  int32_t n_tokens = 0;  // of them in this record
  uint64_t payload_bytes = 0;
  uint64_t payload_hash = 0;
  uint64_t header_hash = 0;  // of all before it and of the tokens
};
static_assert(sizeof(RecordHeader) == 72);

struct Record {
  RecordHeader header;
  std::vector<TokenId> tokens;
  uint64_t payload_offset = 0;  // in the file
};

struct SegmentIdentity {
  PrefixKey fingerprint = {};
  std::string label;  // for people; at most 63 bytes are kept
};

struct ScannedSegment {
  SegmentIdentity identity;
  std::vector<Record> records;
  uint64_t good_bytes = 0;  // the rest is incomplete or damaged
  uint64_t file_bytes = 0;
  std::string problem;  // what is wrong with the rest, or with the whole file when good_bytes is 0; empty: nothing
};

// Reads headers and tokens. Throws nothing but std::bad_alloc: whatever is wrong is said in `problem`.
[[nodiscard]] ScannedSegment scan_segment(const std::string& path);

// Reads one segment's payloads; the file stays readable when somebody removes it.
class SegmentReader {
 public:
  // Throws kIo.
  explicit SegmentReader(std::string path);
  ~SegmentReader();
  SegmentReader(const SegmentReader&) = delete;
  SegmentReader& operator=(const SegmentReader&) = delete;

  // Throws kIo, also when the bytes are not those that were written.
  void read(uint64_t offset, uint64_t hash, std::span<std::byte> payload) const;
  // Marks the file as used now: pruning begins with what was not used for longest.
  void touch() const noexcept;

 private:
  std::string path_;
  int fd_;
};

// Owns a new segment, locked against pruning by anybody as long as it lives.
class SegmentWriter {
 public:
  // Throws kIo; a file of that name must not exist.
  SegmentWriter(std::string path, const SegmentIdentity& identity);
  ~SegmentWriter();
  SegmentWriter(const SegmentWriter&) = delete;
  SegmentWriter& operator=(const SegmentWriter&) = delete;

  // Completes the header (kind, keys and positions are the caller's) and appends the record; returns where its payload
  // lies. Throws kIo: then the segment is as before, and can be appended to again.
  uint64_t append(RecordHeader& header, std::span<const TokenId> tokens, std::span<const std::byte> payload);

  [[nodiscard]] uint64_t size() const { return size_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  void write_all(std::span<const std::byte> bytes, uint64_t offset);

  std::string path_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

// The segments below a directory, whoever made them; empty when it is not there.
struct SegmentFile {
  std::string path;
  uint64_t bytes = 0;
  int64_t used_ns = 0;  // since the epoch
};
[[nodiscard]] std::vector<SegmentFile> list_segments(const std::string& dir);

// Removes the segments that were not used for longest until those below `dir` take at most `budget` bytes. Spares those
// that somebody is writing, and files that are none of ours. Returns what was removed.
std::vector<SegmentFile> prune_segments(const std::string& dir, uint64_t budget);

}  // namespace fathom

// The disk cache of one model: blocks and anchors of an engine, in segments (segment_file.h) below
// DIR/<fingerprint>. A block of tokens is written once, whoever shares it, so a turn costs what is new in it.
//
// A thread of its own writes; the engine's thread, which calls everything here, waits for nothing but its own reads.
// The store forgets what it cannot find or trust, and stops writing when it cannot: the cache then only becomes less
// useful.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "backend/cache_layout.h"
#include "cache/segment_file.h"

namespace fathom {

struct PrefixStoreOptions {
  std::string dir;
  SegmentIdentity identity;                      // of the model with everything that decides about the bits of its rows
  uint64_t budget_bytes = 0;                     // of all segments below `dir`, other models' too; 0: no bound
  uint64_t segment_bytes = uint64_t{256} << 20;  // a segment that has reached this is closed
  size_t max_queued_bytes = size_t{256} << 20;   // what waits to be written; more is not offered to the disk
};

struct PrefixStoreStats {
  uint64_t anchors = 0;  // that can be loaded
  uint64_t blocks = 0;
  // Since the start.
  uint64_t bytes_written = 0;
  uint64_t bytes_read = 0;
  uint64_t loads = 0;            // anchors
  uint64_t failed_loads = 0;     // because a segment is gone or damaged
  uint64_t skipped_anchors = 0;  // because too much was waiting
  bool writing = true;           // false: it failed, and was given up
};

class PrefixStore {
 public:
  // Scans what is there; a line in the log for every file that cannot be used. Throws kIo when the directory cannot be
  // made, and kBadRequest when it is not one.
  PrefixStore(const CacheLayout& layout, PrefixStoreOptions options);
  // Writes what waits.
  ~PrefixStore();
  PrefixStore(const PrefixStore&) = delete;
  PrefixStore& operator=(const PrefixStore&) = delete;

  // An anchor that can be loaded, for the tokens before it.
  struct Stored {
    std::vector<TokenId> tokens;
    uint32_t id = 0;
  };
  // Those that can be loaded since the last call: in the beginning all.
  [[nodiscard]] std::vector<Stored> take_stored();

  // Rows of an anchor, read from the sequence's own blocks.
  class Source {
   public:
    virtual ~Source() = default;
    [[nodiscard]] virtual std::span<const std::byte> image() const = 0;
    virtual void read_block(int i, std::span<std::byte> block) const = 0;  // [block_bytes]
  };
  // Has the anchor behind `tokens` written, and those of its blocks that are not there yet. False: not now.
  [[nodiscard]] bool offer(std::span<const TokenId> tokens, const Source& source);

  // Where loaded rows go.
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void write_block(int i, std::span<const std::byte> block) = 0;  // [block_bytes]
  };
  // Reads an anchor: its image [anchor_image_bytes], and its blocks from `first_block` on. False: something of it is
  // gone or damaged, and the anchor is forgotten; a line in the log says why. Throws what the sink throws.
  [[nodiscard]] bool load(uint32_t id, std::span<const TokenId> tokens, int first_block, Sink& sink,
                          std::span<std::byte> image);

  // Until all that was offered is written or given up. For tests and orderly ends.
  void flush();
  [[nodiscard]] PrefixStoreStats stats() const;

 private:
  struct Location {
    int segment = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    uint64_t hash = 0;
  };
  struct KeyHash {
    size_t operator()(const PrefixKey& key) const noexcept;
  };
  struct Job {
    RecordHeader header;
    std::vector<TokenId> tokens;  // of the record
    std::vector<std::byte> payload;
    std::vector<TokenId> sequence;  // of an anchor: all tokens before it
  };
  struct Written {
    Job job;  // without its payload
    std::string segment;
    uint64_t payload_offset = 0;
  };
  using Records = std::unordered_map<PrefixKey, Record, KeyHash>;

  void scan();
  // Those that fit the layout and their names.
  void collect(const std::string& path, ScannedSegment segment, Records& blocks, Records& anchors);
  [[nodiscard]] bool fits(const Record& record) const;
  // The tokens before an anchor; empty when a block is missing.
  [[nodiscard]] std::vector<TokenId> tokens_before(const Record& anchor, const Records& blocks) const;
  void add_stored(const PrefixKey& key, std::vector<TokenId> tokens);

  // Of the full blocks; the first is the fingerprint, which is the key before block 0.
  [[nodiscard]] std::vector<PrefixKey> block_keys(std::span<const TokenId> tokens) const;
  [[nodiscard]] int tail_of(std::span<const TokenId> tokens) const;
  int segment_number(const std::string& path);
  // Takes over what the writing thread has done.
  void absorb();
  void forget_segment(int segment);
  // Now and then: other processes may remove segments, and those in use are to look used.
  void look_after_segments(std::span<const PrefixKey> keys);
  // false: it is gone or damaged.
  [[nodiscard]] bool read(const Location& from, std::span<std::byte> payload);
  void enqueue(std::vector<Job> jobs);

  // On the writing thread.
  void write_all();
  void write(Job& job);
  void keep_budget();

  const CacheLayout layout_;
  const PrefixStoreOptions options_;
  std::string segment_dir_;

  // The engine's thread.
  std::vector<std::string> segments_;                                        // paths, by number
  std::unordered_map<PrefixKey, std::optional<Location>, KeyHash> blocks_;   // empty: it waits to be written
  std::unordered_map<PrefixKey, std::optional<Location>, KeyHash> anchors_;  // the same
  std::vector<PrefixKey> anchor_ids_;
  std::vector<Stored> stored_;
  std::vector<std::byte> block_scratch_;
  std::vector<std::byte> payload_scratch_;
  std::optional<std::chrono::steady_clock::time_point> looked_;

  // The writing thread.
  std::unique_ptr<SegmentWriter> writer_;
  uint64_t dir_bytes_ = 0;    // what all segments below `dir` take, as far as this process knows
  uint64_t prune_above_ = 0;  // when to look again
  int n_segments_written_ = 0;

  mutable std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::vector<Job> queue_;
  size_t queued_bytes_ = 0;  // also of what is being written
  std::vector<Written> written_;
  std::vector<std::string> removed_;
  bool stopping_ = false;
  PrefixStoreStats stats_;

  std::thread thread_;
};

}  // namespace fathom

#include "cache/prefix_store.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "cache/anchor_image.h"
#include "core/check.h"
#include "core/error.h"
#include "core/log.h"

namespace fathom {
namespace {

constexpr std::chrono::seconds kLookInterval{5};

std::string make_directory(const PrefixStoreOptions& options) {
  const std::filesystem::path path = std::filesystem::path(options.dir) / key_text(options.identity.fingerprint);
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    throw Error(ErrorCode::kIo, fmt::format("kv-dir: cannot make {}: {}", path.string(), error.message()));
  }
  return path.string();
}

uint64_t bytes_of(const std::vector<SegmentFile>& files) {
  uint64_t total = 0;
  for (const SegmentFile& file : files) {
    total += file.bytes;
  }
  return total;
}

// A budget is made up of several segments, for they are removed whole.
PrefixStoreOptions checked(PrefixStoreOptions options) {
  constexpr uint64_t kSegmentsOfABudget = 8;
  if (options.budget_bytes > 0) {
    options.segment_bytes = std::min(options.segment_bytes, options.budget_bytes / kSegmentsOfABudget);
  }
  return options;
}

}  // namespace

size_t PrefixStore::KeyHash::operator()(const PrefixKey& key) const noexcept {
  size_t hash = 0;
  std::memcpy(&hash, key.data(), sizeof(hash));
  return hash;
}

PrefixStore::PrefixStore(const CacheLayout& layout, PrefixStoreOptions options)
    : layout_(layout),
      options_(checked(std::move(options))),
      segment_dir_(make_directory(options_)),
      block_scratch_(layout.block_bytes) {
  scan();
  dir_bytes_ = bytes_of(list_segments(options_.dir));
  prune_above_ = options_.budget_bytes;
  thread_ = std::thread([this] { write_all(); });
}

PrefixStore::~PrefixStore() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

// --- What is there ---------------------------------------------------------------------------------------------------

void PrefixStore::scan() {
  Records blocks;
  Records anchors;
  for (const SegmentFile& file : list_segments(segment_dir_)) {
    collect(file.path, scan_segment(file.path), blocks, anchors);
  }
  for (const auto& [key, anchor] : anchors) {
    std::vector<TokenId> tokens = tokens_before(anchor, blocks);
    if (tokens.empty()) {
      anchors_.erase(key);
    } else {
      add_stored(key, std::move(tokens));
    }
  }
}

void PrefixStore::collect(const std::string& path, ScannedSegment segment, Records& blocks, Records& anchors) {
  if (!segment.problem.empty()) {
    log_warn(fmt::format("disk cache: {}: {}; {} of {} bytes are used", path, segment.problem, segment.good_bytes,
                         segment.file_bytes));
  }
  if (segment.good_bytes == 0) {
    return;
  }
  if (segment.identity.fingerprint != options_.identity.fingerprint) {
    log_warn(
        fmt::format("disk cache: {}: belongs to another model or setting ({}); ignored", path, segment.identity.label));
    return;
  }
  const int number = segment_number(path);
  for (Record& record : segment.records) {
    if (!fits(record)) {
      log_warn(fmt::format("disk cache: {}: a record before byte {} is not of this model's layout; ignored", path,
                           record.payload_offset));
      continue;
    }
    const RecordHeader& header = record.header;
    const Location location{number, record.payload_offset, header.payload_bytes, header.payload_hash};
    // Of several the newest: the others may have been found damaged.
    const PrefixKey key = header.key;
    const bool is_block = header.kind == RecordKind::kBlock;
    (is_block ? blocks_ : anchors_).insert_or_assign(key, location);
    (is_block ? blocks : anchors).insert_or_assign(key, std::move(record));
  }
}

bool PrefixStore::fits(const Record& record) const {
  const RecordHeader& header = record.header;
  const int block_tokens = layout_.options.block_tokens;
  const bool is_block = header.kind == RecordKind::kBlock;
  const int n_tokens = is_block ? block_tokens : header.position % block_tokens;
  if ((!is_block && header.kind != RecordKind::kAnchor) || header.position < 1 || header.n_tokens != n_tokens ||
      (is_block && header.position % block_tokens != 0)) {
    return false;
  }
  const size_t bytes =
      packed_block_bytes(layout_, n_tokens) + (is_block ? 0 : anchor_image_bytes(layout_, header.position));
  return header.payload_bytes == bytes && header.key == chain_key(header.parent, record.tokens);
}

std::vector<TokenId> PrefixStore::tokens_before(const Record& anchor, const Records& blocks) const {
  std::vector<TokenId> tokens(static_cast<size_t>(anchor.header.position));
  auto end = std::copy_backward(anchor.tokens.begin(), anchor.tokens.end(), tokens.end());
  PrefixKey key = anchor.header.parent;
  while (end != tokens.begin()) {
    const auto block = blocks.find(key);
    if (block == blocks.end() || block->second.header.position != end - tokens.begin()) {
      return {};
    }
    end = std::copy_backward(block->second.tokens.begin(), block->second.tokens.end(), end);
    key = block->second.header.parent;
  }
  return key == options_.identity.fingerprint ? tokens : std::vector<TokenId>{};
}

void PrefixStore::add_stored(const PrefixKey& key, std::vector<TokenId> tokens) {
  stored_.push_back({std::move(tokens), static_cast<uint32_t>(anchor_ids_.size())});
  anchor_ids_.push_back(key);
}

std::vector<PrefixStore::Stored> PrefixStore::take_stored() {
  absorb();
  return std::exchange(stored_, {});
}

// --- Reading ---------------------------------------------------------------------------------------------------------

bool PrefixStore::load(uint32_t id, std::span<const TokenId> tokens, int first_block, Sink& sink,
                       std::span<std::byte> image) {
  absorb();
  const PrefixKey anchor_key = anchor_ids_.at(id);
  const std::vector<PrefixKey> keys = block_keys(tokens);
  const int tail = tail_of(tokens);
  const auto anchor = anchors_.find(anchor_key);
  bool whole = anchor != anchors_.end() && anchor->second;
  for (auto i = static_cast<size_t>(first_block); whole && i + 1 < keys.size(); ++i) {
    const auto block = blocks_.find(keys[i + 1]);
    whole = block != blocks_.end() && block->second;
    if (whole) {
      payload_scratch_.resize(block->second->bytes);
      whole = read(*block->second, payload_scratch_);
    }
    if (whole) {
      unpack_block(layout_, layout_.options.block_tokens, payload_scratch_, block_scratch_);
      sink.write_block(static_cast<int>(i), block_scratch_);
    } else if (block != blocks_.end() && block->second) {
      blocks_.erase(block);  // to be written again when it is computed again
    }
  }
  if (whole) {
    payload_scratch_.resize(anchor->second->bytes);
    whole = read(*anchor->second, payload_scratch_);
  }
  if (!whole) {
    anchors_.erase(anchor_key);
    const std::lock_guard lock(mutex_);
    ++stats_.failed_loads;
    return false;
  }
  const std::span<const std::byte> payload = payload_scratch_;
  const size_t tail_bytes = packed_block_bytes(layout_, tail);
  FATHOM_CHECK(payload.size() == tail_bytes + image.size(), "an anchor's record fits its position");
  if (tail > 0) {
    unpack_block(layout_, tail, payload.first(tail_bytes), block_scratch_);
    sink.write_block(static_cast<int>(keys.size()) - 1, block_scratch_);
  }
  std::copy(payload.begin() + static_cast<std::ptrdiff_t>(tail_bytes), payload.end(), image.begin());
  looked_.reset();
  look_after_segments(keys);
  const std::lock_guard lock(mutex_);
  ++stats_.loads;
  return true;
}

bool PrefixStore::read(const Location& from, std::span<std::byte> payload) {
  try {
    SegmentReader(segments_[static_cast<size_t>(from.segment)]).read(from.offset, from.hash, payload);
  } catch (const Error& error) {
    log_warn(fmt::format("disk cache: {}; computed again instead", error.what()));
    return false;
  }
  const std::lock_guard lock(mutex_);
  stats_.bytes_read += payload.size();
  return true;
}

// --- Writing, on the engine's thread ---------------------------------------------------------------------------------

bool PrefixStore::offer(std::span<const TokenId> tokens, const Source& source) {
  absorb();
  {
    const std::lock_guard lock(mutex_);
    if (!stats_.writing) {
      return false;
    }
    if (queued_bytes_ > options_.max_queued_bytes) {
      ++stats_.skipped_anchors;
      return false;
    }
  }
  const std::vector<PrefixKey> keys = block_keys(tokens);
  look_after_segments(keys);
  const int tail = tail_of(tokens);
  const std::span<const TokenId> tail_tokens = tokens.last(static_cast<size_t>(tail));
  const PrefixKey anchor_key = chain_key(keys.back(), tail_tokens);
  if (!anchors_.emplace(anchor_key, std::nullopt).second) {
    return true;
  }

  std::vector<Job> jobs;
  const auto block_tokens = static_cast<size_t>(layout_.options.block_tokens);
  for (size_t i = 0; i + 1 < keys.size(); ++i) {
    if (!blocks_.emplace(keys[i + 1], std::nullopt).second) {
      continue;
    }
    const std::span<const TokenId> block = tokens.subspan(i * block_tokens, block_tokens);
    Job& job = jobs.emplace_back();
    job.header.kind = RecordKind::kBlock;
    job.header.key = keys[i + 1];
    job.header.parent = keys[i];
    job.header.position = static_cast<int32_t>((i + 1) * block_tokens);
    job.tokens.assign(block.begin(), block.end());
    job.payload.resize(packed_block_bytes(layout_, layout_.options.block_tokens));
    source.read_block(static_cast<int>(i), block_scratch_);
    pack_block(layout_, layout_.options.block_tokens, block_scratch_, job.payload);
  }
  Job& job = jobs.emplace_back();
  job.header.kind = RecordKind::kAnchor;
  job.header.key = anchor_key;
  job.header.parent = keys.back();
  job.header.position = static_cast<int32_t>(tokens.size());
  job.tokens.assign(tail_tokens.begin(), tail_tokens.end());
  job.sequence.assign(tokens.begin(), tokens.end());
  job.payload.resize(packed_block_bytes(layout_, tail) + source.image().size());
  if (tail > 0) {
    source.read_block(static_cast<int>(keys.size()) - 1, block_scratch_);
    pack_block(layout_, tail, block_scratch_, std::span(job.payload).first(packed_block_bytes(layout_, tail)));
  }
  std::copy(source.image().begin(), source.image().end(), job.payload.end() - std::ssize(source.image()));
  enqueue(std::move(jobs));
  return true;
}

void PrefixStore::enqueue(std::vector<Job> jobs) {
  {
    const std::lock_guard lock(mutex_);
    for (Job& job : jobs) {
      queued_bytes_ += job.payload.size();
      queue_.push_back(std::move(job));
    }
  }
  changed_.notify_all();
}

std::vector<PrefixKey> PrefixStore::block_keys(std::span<const TokenId> tokens) const {
  const auto block_tokens = static_cast<size_t>(layout_.options.block_tokens);
  std::vector<PrefixKey> keys{options_.identity.fingerprint};
  for (; tokens.size() >= block_tokens; tokens = tokens.subspan(block_tokens)) {
    keys.push_back(chain_key(keys.back(), tokens.first(block_tokens)));
  }
  return keys;
}

int PrefixStore::tail_of(std::span<const TokenId> tokens) const {
  return static_cast<int>(tokens.size() % static_cast<size_t>(layout_.options.block_tokens));
}

int PrefixStore::segment_number(const std::string& path) {
  const auto found = std::find(segments_.rbegin(), segments_.rend(), path);
  if (found != segments_.rend()) {
    return static_cast<int>(segments_.rend() - found) - 1;
  }
  segments_.push_back(path);
  return static_cast<int>(segments_.size()) - 1;
}

void PrefixStore::absorb() {
  std::vector<Written> written;
  std::vector<std::string> removed;
  {
    const std::lock_guard lock(mutex_);
    written = std::exchange(written_, {});
    removed = std::exchange(removed_, {});
  }
  for (Written& done : written) {
    const RecordHeader& header = done.job.header;
    const Location location{segment_number(done.segment), done.payload_offset, header.payload_bytes,
                            header.payload_hash};
    if (header.kind == RecordKind::kBlock) {
      blocks_[header.key] = location;
    } else {
      anchors_[header.key] = location;
      add_stored(header.key, std::move(done.job.sequence));
    }
  }
  for (const std::string& path : removed) {
    forget_segment(segment_number(path));
  }
}

void PrefixStore::forget_segment(int segment) {
  const auto is_there = [&](const auto& entry) { return entry.second && entry.second->segment == segment; };
  std::erase_if(blocks_, is_there);
  std::erase_if(anchors_, is_there);
}

void PrefixStore::look_after_segments(std::span<const PrefixKey> keys) {
  const auto now = std::chrono::steady_clock::now();
  if (looked_ && now - *looked_ < kLookInterval) {
    return;
  }
  looked_ = now;
  std::set<int> used;
  for (const PrefixKey& key : keys) {
    const auto block = blocks_.find(key);
    if (block != blocks_.end() && block->second) {
      used.insert(block->second->segment);
    }
  }
  for (const int segment : used) {
    try {
      SegmentReader(segments_[static_cast<size_t>(segment)]).touch();
    } catch (const Error&) {
      forget_segment(segment);
    }
  }
}

void PrefixStore::flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queued_bytes_ == 0; });
}

PrefixStoreStats PrefixStore::stats() const {
  const std::lock_guard lock(mutex_);
  PrefixStoreStats stats = stats_;
  stats.anchors = anchors_.size();
  stats.blocks = blocks_.size();
  return stats;
}

// --- The writing thread ----------------------------------------------------------------------------------------------

void PrefixStore::write_all() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) {
      return;
    }
    std::vector<Job> jobs = std::exchange(queue_, {});
    for (Job& job : jobs) {
      const size_t bytes = job.payload.size();
      const bool writing = stats_.writing;
      lock.unlock();
      if (writing) {
        write(job);
      }
      lock.lock();
      queued_bytes_ -= bytes;
    }
    changed_.notify_all();
  }
}

void PrefixStore::write(Job& job) {
  try {
    if (!writer_ || writer_->size() >= options_.segment_bytes) {
      writer_.reset();
      const auto now = std::chrono::system_clock::now().time_since_epoch().count();
      writer_ = std::make_unique<SegmentWriter>(
          fmt::format("{}/{:x}-{}-{}.seg", segment_dir_, now, ::getpid(), n_segments_written_++), options_.identity);
    }
    const uint64_t before = writer_->size();
    const uint64_t offset = writer_->append(job.header, job.tokens, job.payload);
    const uint64_t written = writer_->size() - before;
    dir_bytes_ += written;
    job.payload = {};
    const std::lock_guard lock(mutex_);
    stats_.bytes_written += written;
    written_.push_back({std::move(job), writer_->path(), offset});
  } catch (const Error& error) {
    log_warn(fmt::format("disk cache: {}; nothing more is written", error.what()));
    writer_.reset();
    const std::lock_guard lock(mutex_);
    stats_.writing = false;
    return;
  }
  keep_budget();
}

void PrefixStore::keep_budget() {
  if (options_.budget_bytes == 0 || dir_bytes_ <= prune_above_) {
    return;
  }
  constexpr uint64_t kSlack = 16;
  const std::vector<SegmentFile> removed =
      prune_segments(options_.dir, options_.budget_bytes - options_.budget_bytes / kSlack);
  dir_bytes_ = bytes_of(list_segments(options_.dir));
  // What others are writing stays: do not look at every record.
  prune_above_ = std::max(options_.budget_bytes, dir_bytes_ + options_.budget_bytes / kSlack);
  const std::lock_guard lock(mutex_);
  for (const SegmentFile& file : removed) {
    removed_.push_back(file.path);
  }
}

}  // namespace fathom

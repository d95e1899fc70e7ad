// What the model wrote when it called tools, remembered by the ids of the calls: a client sends the calls back as JSON,
// from which neither the bytes nor the tokens can be had again, and with another byte the rest of the prompt would be
// computed anew (docs/server.md).
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "chat/message.h"

namespace fathom {

// From any thread.
class ReplayStore {
 public:
  explicit ReplayStore(size_t max_bytes = size_t{64} << 20) : max_bytes_(max_bytes) {}

  // `answer`: as the client got it, with its reasoning, content and calls.
  void remember(ChatMessage answer, SampledReply sampled);
  // What `message` was when the model wrote it; null: nobody knows, or the client has changed it. Content or reasoning
  // that the client left out count as unchanged.
  [[nodiscard]] std::shared_ptr<const SampledReply> find(const ChatMessage& message);

 private:
  struct Entry {
    ChatMessage answer;
    std::shared_ptr<const SampledReply> sampled;
    size_t bytes = 0;
  };

  void drop_oldest();

  size_t max_bytes_;
  std::mutex mutex_;
  std::list<Entry> entries_;                                           // the one used last comes first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_id_;  // of the first call
  size_t bytes_ = 0;
};

}  // namespace fathom

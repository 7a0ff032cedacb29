// Frozen hashes, the canonical encoding, and the set hash against a set.
#include "base/hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/prng.h"

namespace rota {
namespace {

struct Tag {};
enum class Colour : std::uint8_t { kRed = 1 };

std::string pattern(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 131 + 7);
  return text;
}

TEST(HashTest, PublishedValuesOfXxh3) {
  // XXH3 of nothing with seed 0.
  EXPECT_EQ(hash64("", 0), 0x2d06800538d394c2U);
  EXPECT_EQ(hash128("", 0).to_string(), "99aa06d3014798d86001c324468d497f");
}

TEST(HashTest, ValuesAreFrozen) {
  // Stored in logs and snapshots. One length for each of XXH3's branches.
  const std::map<std::size_t, std::pair<std::uint64_t, std::string>> frozen = {
      {0, {0xd6a088f64d51555cU, "26c153559b32a2543db008af504b9b18"}},
      {1, {0x0736dedbf1598e2aU, "4e650434e3fcefff0736dedbf1598e2a"}},
      {3, {0xeb9d5640a3af4b01U, "0a5e755d602e634eeb9d5640a3af4b01"}},
      {4, {0x78b60f110c9ca0d6U, "46aad1b3ccbc8eb1e9103dc82c7d1713"}},
      {8, {0x0bbf33f3aea800f7U, "906cb5b5d41f9f3a70a883a9fe8ed782"}},
      {9, {0xdbdf133d1d0abf37U, "d47ff055e67c7d316ed1070acccbf5c8"}},
      {16, {0xbf6f3308b688d9afU, "a964e578c8c898d3a4c3645eec02addd"}},
      {17, {0xd88ff884debe4828U, "5ca361868719868a1d156a5aa1026496"}},
      {128, {0x19d080ef46ca244dU, "55d4132c31dea09292480774c4f8c39e"}},
      {129, {0xb1ef5c5cc42c10dcU, "85673306120db3cce4b333f606e81c60"}},
      {240, {0xb1530e180545cf22U, "9893417c2570bc30a8471f5b62d5c9f3"}},
      {241, {0x0195e577c1cdbc19U, "030663ba05771e700195e577c1cdbc19"}},
      {256, {0x744d00e2f9e02973U, "b20b9d927b5ec737744d00e2f9e02973"}},
      {1024, {0x81eae8e267e57fb0U, "b70e7b8b89dd0bc881eae8e267e57fb0"}},
      {1025, {0xed458eaf24e59585U, "ddc9dae6144fc591ed458eaf24e59585"}},
      {10000, {0x4ac9d2a536de51efU, "ef65b787c73731534ac9d2a536de51ef"}},
  };
  for (const auto& [size, expected] : frozen) {
    EXPECT_EQ(hash64(pattern(size)), expected.first) << size;
    EXPECT_EQ(hash128(pattern(size)).to_string(), expected.second) << size;
  }
}

TEST(HashTest, CanonicalEncodingIsFrozen) {
  EXPECT_EQ(hash_of(std::uint64_t{1}, std::int32_t{-2}, true, Colour::kRed, std::string("name"), Id<Tag>(7),
                    StringId<Tag>("id"), std::optional<std::uint16_t>(3), std::optional<std::uint16_t>(),
                    std::vector<std::uint8_t>{1, 2, 3})
                .to_string(),
            "292b913c4a0dab71953bf3e10380c5c6");
}

TEST(HashTest, EncodingIsWhatTheHeaderSays) {
  const auto bytes = [](std::initializer_list<int> list) {
    std::string text;
    for (const int byte : list) text.push_back(static_cast<char>(byte));
    return hash128(text);
  };
  EXPECT_EQ(hash_of(std::uint32_t{0x01020304}), bytes({4, 3, 2, 1}));
  EXPECT_EQ(hash_of(std::int16_t{-2}), bytes({0xfe, 0xff}));
  EXPECT_EQ(hash_of(true, false), bytes({1, 0}));
  EXPECT_EQ(hash_of("ab"), bytes({2, 0, 0, 0, 0, 0, 0, 0, 'a', 'b'}));
  EXPECT_EQ(hash_of(std::optional<std::uint8_t>(5)), bytes({1, 5}));
  EXPECT_EQ(hash_of(std::vector<std::uint8_t>{9, 8}), bytes({2, 0, 0, 0, 0, 0, 0, 0, 9, 8}));
  EXPECT_EQ(hash_of(std::set<std::uint8_t>{8, 9}), bytes({2, 0, 0, 0, 0, 0, 0, 0, 8, 9}));
  EXPECT_EQ(hash_of(Id<Tag, std::uint32_t>(1)), bytes({1, 0, 0, 0}));
}

TEST(HashTest, NeighbouringTextsDoNotRunTogether) {
  EXPECT_NE(hash_of("ab", "c"), hash_of("a", "bc"));
  EXPECT_NE(hash_of("", "abc"), hash_of("abc", ""));
  EXPECT_NE(hash_of(std::vector<std::string>{"a"}, std::vector<std::string>{"b"}),
            hash_of(std::vector<std::string>{"a", "b"}, std::vector<std::string>{}));
}

TEST(HashTest, StreamingEqualsOneCallHoweverItIsCut) {
  Prng prng(1);
  for (const std::size_t size : {0UL, 1UL, 16UL, 128UL, 239UL, 240UL, 241UL, 256UL, 257UL, 1000UL, 5000UL}) {
    const std::string text = pattern(size);
    for (int round = 0; round < 20; ++round) {
      Hasher hasher;
      std::size_t at = 0;
      while (at < size) {
        const std::size_t count = std::min<std::size_t>(size - at, 1 + prng.below(round < 10 ? 50 : 700));
        hasher.raw(std::as_bytes(std::span(text)).subspan(at, count));
        at += count;
      }
      ASSERT_EQ(hasher.finish64(), hash64(text)) << size;
      ASSERT_EQ(hasher.finish128(), hash128(text)) << size;
    }
  }
}

TEST(HashTest, ACopyContinuesOnItsOwn) {
  for (const std::size_t size : {10UL, 1000UL}) {
    Hasher first;
    first.add(pattern(size));
    Hasher second = first;
    EXPECT_EQ(first.finish128(), second.finish128());
    first.add(1);
    second.add(2);
    EXPECT_NE(first.finish128(), second.finish128());
    EXPECT_EQ(first.finish128(), Hasher().add(pattern(size)).add(1).finish128());
  }
}

TEST(HashTest, SeedsSeparate) {
  EXPECT_NE(hash64("x", 1), hash64("x", 2));
  EXPECT_NE(Hasher(1).add(pattern(1000)).finish64(), Hasher(2).add(pattern(1000)).finish64());
}

TEST(HashTest, TextFormGoesBothWays) {
  const Hash128 hash{0x0123456789abcdefU, 0xfedcba9876543210U};
  EXPECT_EQ(hash.to_string(), "0123456789abcdeffedcba9876543210");
  EXPECT_EQ(Hash128::parse(hash.to_string()), hash);
  for (const char* text : {"", "0123", "0123456789abcdeffedcba987654321g", "0123456789abcdeffedcba98765432100",
                           "-123456789abcdeffedcba9876543210"}) {
    EXPECT_EQ(Hash128::parse(text), std::nullopt) << text;
  }
}

TEST(SetHashTest, DependsOnTheElementsAndNotOnTheirOrder) {
  // A random walk of adds and removes beside a std::multiset: equal sets have equal hashes, and of all the different
  // sets seen no two have the same.
  Prng prng(2);
  std::multiset<std::uint64_t> elements;
  SetHash set_hash;
  std::map<std::multiset<std::uint64_t>, Hash128> seen;
  std::set<Hash128> values;
  for (int step = 0; step < 5000; ++step) {
    const std::uint64_t element = prng.below(6);
    const auto found = elements.find(element);
    if (found != elements.end() && (prng.chance(1, 2) || elements.size() > 5)) {
      elements.erase(found);
      set_hash.remove(hash_of(element));
    } else {
      elements.insert(element);
      set_hash.add(hash_of(element));
    }
    ASSERT_EQ(set_hash.count(), elements.size());
    const auto [entry, is_new] = seen.emplace(elements, set_hash.value());
    ASSERT_EQ(entry->second, set_hash.value());
    if (is_new) {
      ASSERT_TRUE(values.insert(set_hash.value()).second);
    }
  }
  EXPECT_GT(seen.size(), 200U);
}

TEST(SetHashTest, ReplaceAndMerge) {
  SetHash a, b, all;
  a.add(hash_of(1));
  b.add(hash_of(2));
  b.replace(hash_of(2), hash_of(3));
  all.add(hash_of(3));
  all.add(hash_of(1));
  a.merge(b);
  EXPECT_EQ(a, all);
  EXPECT_EQ(a.value(), all.value());
  EXPECT_NE(SetHash().value(), a.value());
}

TEST(SetHashTest, ValueIsFrozen) {
  SetHash set_hash;
  for (std::uint64_t i = 0; i < 10; ++i) set_hash.add(hash_of(i));
  EXPECT_EQ(set_hash.value().to_string(), "057bd5e4a7f45ecf742896f2880678ef");
  EXPECT_EQ(SetHash().value().to_string(), "443365b72412484bae0b5a27cacee201");
}

using SetHashDeathTest = testing::Test;
TEST(SetHashDeathTest, NothingCanBeRemovedFromNothing) {
  EXPECT_DEATH(SetHash().remove(Hash128{1, 2}), "removed from an empty SetHash");
}

}  // namespace
}  // namespace rota

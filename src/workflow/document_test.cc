// The tree: places, aliases as if written out, bounds, and that JSON is read to its last escape.
#include "workflow/document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rota::workflow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A document as text: maps in {}, lists in [], quoted scalars in quotes.
std::string shown(const Document& document, const Node& node) {
  if (node.kind == Node::Kind::kScalar) {
    const std::string text(document.text(node));
    return node.plain ? text : "'" + text + "'";
  }
  std::string out = node.kind == Node::Kind::kMap ? "{" : "[";
  for (std::size_t i = 0; i < Document::size(node); ++i) {
    if (i > 0) out.append(" ");
    if (node.kind == Node::Kind::kMap) out.append(document.text(document.key(node, i))).append(":");
    out.append(shown(document, node.kind == Node::Kind::kMap ? document.value(node, i) : document.item(node, i)));
  }
  return out.append(node.kind == Node::Kind::kMap ? "}" : "]");
}
struct Read {
  std::string shown{};
  std::vector<std::string> problems{};
};
Read read(std::string_view text) {
  Problems problems;
  Read out;
  if (const auto document = Document::read(text, problems)) out.shown = shown(*document, document->root());
  for (const Problem& problem : problems.take()) out.problems.push_back(to_string("f", problem));
  return out;
}

TEST(Document, KnowsWhatIsWhere) {
  Problems problems;
  const auto document = Document::read("a: 1\nb:\n  - 'x'\n  - {c: \u00e9, d: [y]}\n", problems);
  ASSERT_TRUE(document);
  EXPECT_EQ(shown(*document, document->root()), "{a:1 b:['x' {c:\u00e9 d:[y]}]}");
  const Node& list = *document->find(document->root(), "b");
  EXPECT_EQ(document->item(list, 0).at, (Position{3, 5}));
  EXPECT_EQ(document->find(document->item(list, 1), "d")->at, (Position{4, 15}));
  EXPECT_EQ(document->find(document->root(), "c"), nullptr);
}

TEST(Document, AliasesAreShared) {
  EXPECT_EQ(read("a: &x {b: [1, 2]}\nc: *x\nd: [*x]\n").shown, "{a:{b:[1 2]} c:{b:[1 2]} d:[{b:[1 2]}]}");
  EXPECT_THAT(read("a: *x\n").problems, ElementsAre("f:1:4: the alias *x is not defined; there is no &x before it"));
  EXPECT_THAT(read("a: &x [*x]\n").problems, ElementsAre("f:1:8: the alias *x is inside what it stands for"));
}

TEST(Document, WhatIsWrongIsPlaced) {
  EXPECT_THAT(read("a: 1\nb: 2\na: 3\na: 4\n").problems,
              ElementsAre("f:3:1: the key 'a' is here twice; the first is in line 1",
                          "f:4:1: the key 'a' is here twice; the first is in line 1"));
  EXPECT_EQ(read("a: 1\nb: 2\na: 3\n").shown, "{a:1 b:2}");
  EXPECT_THAT(read("[a]: 1\n{b: c}: 2\nd: !!int 3\n").problems,
              ElementsAre("f:1:1: a key must be plain text", "f:2:1: a key must be plain text",
                          "f:3:4: the tag tag:yaml.org,2002:int is not allowed; leave it out"));
  EXPECT_THAT(read("a: 1\n---\nb: 2\n").problems, ElementsAre("f:2:1: a second document begins here; a file has one"));
  EXPECT_THAT(read("").problems, ElementsAre("f:1:1: the file is empty"));
  EXPECT_THAT(read("# nothing\n").problems, ElementsAre("f:1:1: the file is empty"));
  EXPECT_THAT(read("a: [1\nb: 2").problems, ElementsAre(HasSubstr("f:2:2: did not find expected ',' or ']'")));
  EXPECT_THAT(read("a:\n\tb: 1\n").problems,
              ElementsAre(HasSubstr("f:2:1: found character that cannot start any token")));
  EXPECT_THAT(read("a: \xff\n").problems, ElementsAre(HasSubstr("f: byte 3: invalid leading UTF-8 octet")));
}

TEST(Document, JsonIsReadToItsLastEscape) {
  const Read json = read("{\"a\":\"\\ud83d\\ude00\\/\",\t\"b\": [1, true, null,\n \"true\"]}");
  EXPECT_THAT(json.problems, IsEmpty());
  EXPECT_EQ(json.shown, "{a:'\U0001f600/' b:[1 true null 'true']}");
  EXPECT_THAT(read("{\"a\": 1,\n \"a\": 2}").problems,
              ElementsAre("f:2:2: the key 'a' is here twice; the first is in line 1"));
  EXPECT_EQ(read("{a: 1, \"b\": 'c'}").shown, "{a:1 b:'c'}");  // Not JSON, but YAML.
}

// Each of these would take hours or all memory if something were unbounded.
TEST(Document, HostileFilesAreRefusedQuickly) {
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) laughs += (j > 0 ? ", " : "") + before;
    laughs += "]\n";
  }
  EXPECT_THAT(read(laughs).problems,
              ElementsAre(HasSubstr("with its aliases written out, this has more than 4000000 values")));
  std::string deep = "a0: &a0 [x]\n";
  for (int i = 1; i < 40; ++i) {
    deep += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) + "]\n";
  }
  EXPECT_THAT(read(deep).problems,
              ElementsAre(HasSubstr("with its aliases written out, this is nested deeper than 32 levels")));
  EXPECT_THAT(read(std::string(1 << 20, '[')).problems, ElementsAre("f:1:33: nested deeper than 32 levels"));
  EXPECT_THAT(read(std::string(1 << 20, '{')).problems, ElementsAre("f:1:33: nested deeper than 32 levels"));
  std::string dashes;
  for (int i = 0; i < 1 << 18; ++i) dashes += "- ";
  EXPECT_THAT(read(dashes).problems, ElementsAre(HasSubstr("nested deeper than 32 levels")));
  EXPECT_THAT(read(std::string((16U << 20) + 1, ' ')).problems,
              ElementsAre("f: has 16777217 bytes; at most 16 MiB are allowed"));
  std::string many = "[";
  for (int i = 0; i < 5'000'000; ++i) many += "a,";
  EXPECT_THAT(read(many + "]").problems, ElementsAre(HasSubstr("the file has more than 4000000 values")));
}

TEST(Document, ManyProblemsAreCounted) {
  std::string text;
  for (int i = 0; i < 150; ++i) text += "[k" + std::to_string(i) + "]: 1\n";
  const Read many = read(text);
  ASSERT_EQ(many.problems.size(), Problems::kMostProblems + 1);
  EXPECT_EQ(many.problems.back(), "f:100:1: and 50 more");
}

}  // namespace
}  // namespace rota::workflow

// A grammar of `.loom` for editors: tokens, declarations, calls and brackets.
//
// It takes a text as a sequence of these and leaves statements alone, whose ends depend on lines and on indentation, so that
// it needs no scanner of its own and recovers at the next token from whatever is being typed.

const PREC = { declaration: 2, call: 1 };

module.exports = grammar({
  name: "loom",

  extras: ($) => [/\s/, $.comment, $.doc_comment],

  word: ($) => $.identifier,

  rules: {
    source_file: ($) => repeat($._element),

    _element: ($) =>
      choice(
        $.declaration,
        $.structure,
        $.annotation,
        $.call,
        $.member,
        $.block,
        $.arguments,
        $.parentheses,
        $.brackets,
        $.keyword,
        $.word_operator,
        $.boolean,
        $.primitive_type,
        $.identifier,
        $.number,
        $.string,
        $.operator,
        $.delimiter,
      ),

    // `fn name`, `kernel name`, `compute name`, `const NAME`; a computation may have no name.
    declaration: ($) =>
      prec.right(PREC.declaration, seq(choice("fn", "kernel", "compute", "const"), optional(field("name", $.identifier)))),

    structure: ($) => prec.right(PREC.declaration, seq("struct", optional(field("name", $.identifier)))),

    annotation: ($) => seq("@", field("name", choice($.identifier, "kernel"))),

    // A bracket that follows a name directly is its call; after a space it groups.
    call: ($) => prec(PREC.call, seq(field("function", choice($.identifier, $.primitive_type)), $.arguments)),

    member: ($) => seq(".", field("name", $.identifier)),

    block: ($) => seq("{", repeat($._element), "}"),
    arguments: ($) => seq(token.immediate(prec(1, "(")), repeat($._element), ")"),
    parentheses: ($) => seq("(", repeat($._element), ")"),
    brackets: ($) => seq("[", repeat($._element), "]"),

    keyword: (_) =>
      choice(
        "let", "var", "import", "from", "if", "then", "elif", "else", "for", "in", "serial", "while", "break",
        "continue", "return", "assert",
      ),

    word_operator: (_) => choice("and", "or", "not"),

    boolean: (_) => choice("true", "false"),

    primitive_type: (_) =>
      choice(
        "bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64", "array", "vector",
        "matrix", "quaternion", "transformation", "ref", "vec2", "vec3", "vec4", "mat22", "mat33", "mat44", "quat",
        "transform",
      ),

    identifier: (_) => /[\p{L}_][\p{L}\p{N}_]*/u,

    number: (_) =>
      token(
        choice(
          /0[xX][0-9a-fA-F_]+([iu](8|16|32|64))?/,
          /0[bBoO][0-9_]+([iu](8|16|32|64))?/,
          // `0..n` is a range and `1.` a number.
          /[0-9][0-9_]*([eE][+-]?[0-9_]+)?(bool|[iu](8|16|32|64)|bf16|f16|f32|f64)?/,
          /[0-9][0-9_]*\.[0-9][0-9_]*([eE][+-]?[0-9_]+)?(bf16|f16|f32|f64)?/,
        ),
      ),

    string: (_) => token(seq('"', repeat(choice(/[^"\\\n]/, /\\./)), '"')),

    operator: (_) =>
      choice(
        "**=", "<<=", ">>=", "..=", "->", "..", "**", "<<", ">>", "<=", ">=", "==", "!=", "+=", "-=", "*=", "/=", "%=",
        "&=", "|=", "^=", "+", "-", "*", "/", "%", "&", "|", "^", "~", "<", ">", "=",
      ),

    delimiter: (_) => choice(",", ":", ";"),

    doc_comment: (_) => token(prec(1, /\/\/\/[^\/\n][^\n]*|\/\/\//)),
    comment: (_) => token(/\/\/[^\n]*/),
  },
});

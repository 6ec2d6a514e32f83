(comment) @comment
(doc_comment) @comment.documentation
(string) @string
(number) @number
(boolean) @boolean

(keyword) @keyword
(word_operator) @keyword.operator
(declaration ["fn" "kernel" "compute"] @keyword.function)
(declaration "const" @keyword)
(declaration name: (identifier) @function)
(structure "struct" @keyword)
(structure name: (identifier) @type)

(annotation "@" @attribute name: _ @attribute)
(call function: (identifier) @function.call)
(call function: (primitive_type) @type.builtin)
(member name: (identifier) @variable.member)
(primitive_type) @type.builtin
(identifier) @variable

(operator) @operator
(delimiter) @punctuation.delimiter
["{" "}" "(" ")" "[" "]"] @punctuation.bracket

# What the scripts share. Sets `python`: that of install_tool.sh, unless GINNACER_PYTHON names another.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${GINNACER_PYTHON:-$here/../.venv/bin/python}
[ -x "$python" ] || python=python3

# The file, or the same compressed with gzip: the verifier reads both. A name that begins with - is no option.
found() {
    local file=$1
    [[ $file != -* ]] || file=./$file
    if [ ! -e "$file" ] && [ -e "$file.gz" ]; then echo "$file.gz"; else echo "$file"; fi
}

# Sets `networks` to a path, or to NAME=FILE words from a list such as [('f', 'a.onnx'), ('g', 'b.onnx')].
read_networks() {
    networks=()
    if [[ $1 != \[* ]]; then
        networks=("$(found "$1")")
        return
    fi
    while IFS= read -r pair; do
        networks+=("${pair%%=*}=$(found "${pair#*=}")")
    done < <("$python" -c 'import ast, sys
for name, file in ast.literal_eval(sys.argv[1]): print(f"{name}={file}")' "$1")
}

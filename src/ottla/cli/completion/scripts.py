"""The completion scripts of bash, zsh and fish, which call `ottla completion candidates`."""

from __future__ import annotations

from typing import Final

_BASH: Final = """\
_ottla_complete() {
    local word rest
    COMPREPLY=()
    while IFS=$'\\t' read -r word rest; do
        if [[ $word == '<files>' ]]; then
            compopt -o default 2>/dev/null
            return
        fi
        COMPREPLY+=("$(printf '%q' "$word")")
    done < <("$1" completion --line candidates "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
}
complete -F _ottla_complete ottla
"""

_ZSH: Final = """\
#compdef ottla
_ottla() {
    local line word meaning
    local -a lines found
    lines=("${(@f)$("${words[1]}" completion candidates "${(@Q)words[1,CURRENT]}" 2>/dev/null)}")
    if [[ ${lines[1]} == '<files>' ]]; then
        _files
        return
    fi
    for line in "${lines[@]}"; do
        [[ -n $line ]] || continue
        word=${line%%$'\\t'*}
        meaning=${line#*$'\\t'}
        found+=("${word//:/\\\\:}${meaning:+:$meaning}")
    done
    _describe 'ottla' found
}
if [[ ${funcstack[1]} == _ottla ]]; then
    _ottla "$@"
else
    compdef _ottla ottla
fi
"""

_FISH: Final = """\
function __ottla_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    test (count $current) -gt 0; or set current ''
    set -l found ($before[1] completion candidates $before $current 2>/dev/null)
    if test "$found[1]" = '<files>'
        __fish_complete_path $current
    else
        printf '%s\\n' $found
    end
end
complete -c ottla -f -a '(__ottla_complete)'
"""

SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}

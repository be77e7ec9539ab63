# bash completion for mnem: source this file, or put it in /usr/share/bash-completion/completions/mnem.
#
# The words come from the command itself (`mnem help verbs`, `mnem help options`), so that they are
# those of the version that is installed. A line there is "VERB --option" or "VERB -o", then a
# value's name, or "=" and the values themselves.

_mnem() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]}
    local mnem=${COMP_WORDS[0]/#\~/$HOME} line rest options=
    COMPREPLY=()
    if [ "$COMP_CWORD" = 1 ] || { [ "$verb" = help ] && [ "$COMP_CWORD" = 2 ]; }; then
        mapfile -t COMPREPLY < <(compgen -W "$("$mnem" help verbs 2>/dev/null)" -- "$cur")
        return
    fi
    while read -r line; do
        [ "${line%% *}" = "$verb" ] || continue
        rest=${line#* }
        [[ $rest != --* ]] || options+=" ${rest%% *}"
        [ "${rest%% *}" = "$prev" ] || continue
        case $rest in
        *' = '*) # one of the values
            mapfile -t COMPREPLY < <(compgen -W "${rest#* = }" -- "$cur")
            return
            ;;
        *' FILE')
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return
            ;;
        *' '*) return ;; # a number or a text: nothing to offer
        esac
    done < <("$mnem" help options 2>/dev/null)
    case $cur in
    -*) mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur") ;;
    *)
        if [ "$COMP_CWORD" = 2 ]; then # the model
            mapfile -t COMPREPLY < <(compgen -d -- "$cur"; compgen -f -X '!*.gguf' -- "$cur")
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        fi
        ;;
    esac
}
complete -o filenames -F _mnem mnem

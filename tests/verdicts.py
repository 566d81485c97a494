"""What a finding says, in one word."""

from dubio_studies.framework.claims import Finding


def said(finding: Finding) -> str:
    """``fails`` its rule, ``agrees`` with it, or goes ``beyond`` what was published."""
    if not finding.agrees:
        return "fails"
    return "beyond" if finding.further else "agrees"
